"""How long tests search: a fifth of what they could in every run, all of it in `make soak`."""

from __future__ import annotations

import os

FULL = os.environ.get("KEYHOLE_EFFORT") == "full"


def effort(n: int) -> int:
    """So many examples, seeds or rounds of `n`: all of them, or a fifth (at least one)."""
    return n if FULL else max(1, n // 5)
