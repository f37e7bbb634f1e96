"""Settings of the whole test run."""

from __future__ import annotations

import os

from hypothesis import settings

# Machines are shared: a slow example is not a failure. CI draws the same examples every time, so that a red run is
# about the change; `make test` elsewhere goes on searching.
settings.register_profile("keyhole", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "keyhole")
