"""The findings of a verdict as a pandas frame."""

from __future__ import annotations

from typing import TYPE_CHECKING

from keyhole.extras import import_extra
from keyhole.report.documents.json_text import json_number
from keyhole.report.plain import Plain
from keyhole.report.words.text import formula

if TYPE_CHECKING:
    import pandas as pd


def frame(verdict: Plain) -> pd.DataFrame:
    """One row a finding: the id, then column, status, value, lo, hi, singled_out, proof. Needs the `frames` extra."""
    frames = import_extra("pandas", "to_frame()")
    rows = [
        {
            **case.records[0],
            "column": case.column,
            "status": case.status,
            "value": json_number(case.value),
            "lo": json_number(case.lo),
            "hi": json_number(case.hi),
            "singled_out": case.singled_out,
            "proof": formula(case),
        }
        for case in verdict.findings
    ]
    ids = verdict.source.id or ("row",)
    columns = [*ids, "column", "status", "value", "lo", "hi", "singled_out", "proof"]
    table: pd.DataFrame = frames.DataFrame(rows, columns=columns)
    return table
