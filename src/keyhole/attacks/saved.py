"""An attack's state on disk: save mid-stream, resume later, as if never interrupted."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import numpy as np

from keyhole.attacks.base import Attack
from keyhole.errors import LogError

_FORMAT = "keyhole attack 2"


def save(attack: Attack, path: str | Path) -> None:
    """Write the state as one .npz file; the file appears whole or not at all.

    >>> import tempfile
    >>> from keyhole.attacks.problem.arrays import from_arrays
    >>> from keyhole.attacks.base import Target
    >>> from keyhole.attacks.methods.least_squares import LeastSquares
    >>> e = from_arrays(np.eye(2), [1.0, 2.0])
    >>> a, b = LeastSquares(Target.of(e)), LeastSquares(Target.of(e))
    >>> a.observe(e)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(a, f"{folder}/half.npz")
    ...     resume(b, f"{folder}/half.npz")
    >>> b.estimate().values.tolist()
    [1.0, 2.0]
    """
    path = Path(path)
    draft = path.with_name(path.name + ".part")
    head = np.array([_FORMAT, type(attack).__name__, attack.target.column, str(attack.target.n)])
    with draft.open("wb") as file:
        np.savez(file, allow_pickle=False, **{"head": head, **{f"state.{k}": v for k, v in attack.state().items()}})
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def resume(attack: Attack, path: str | Path) -> None:
    """Load a saved state into a fresh attack of the same kind on the same target."""
    expected = [_FORMAT, type(attack).__name__, attack.target.column, str(attack.target.n)]
    try:
        with np.load(path, allow_pickle=False) as found:
            head = [str(h) for h in found["head"]]
            state = {k.removeprefix("state."): found[k] for k in found.files if k.startswith("state.")}
    except (OSError, ValueError, KeyError, zipfile.BadZipFile):
        raise LogError(f"{path} is not a saved attack, or is damaged: start again from the transcript") from None
    if head[0] != _FORMAT:
        raise LogError(f"{path} was saved by another version ({head[0]}): start again from the transcript")
    if head != expected:
        raise LogError(f"{path} was saved by {' '.join(head[1:])} records, not {' '.join(expected[1:])} records")
    attack.resume(state)
