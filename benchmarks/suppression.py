"""Protected tables of a real hierarchy: `python -m benchmarks.suppression [--business FOLDER] [--seconds 90]`

Two linked tables (turnover by activity in three levels and legal form, and by size; business under KEYHOLE_DATA),
hidden where N < 3 or one firm has more than 85 %. Side by side: the fewest further cells against exact recovery
(proved), those against the ranges that the rule needs, and below them what linear programming and branch and bound
prove. The files are written, read again and audited.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

from keyhole.api.table_repair import TableRepair, write_protected_tables
from keyhole.api.tables import judge, read_tables
from keyhole.auditing.advice.withhold import withhold
from keyhole.crosstab.options import TableOptions

NACE = Path(__file__).parent.parent / "tests" / "crosstab" / "nace.csv"


def main() -> None:
    """Print the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--business", type=Path, default=Path(os.environ.get("KEYHOLE_DATA", "data"), "business"))
    parser.add_argument("--seconds", type=float, default=90)
    told = parser.parse_args()
    files = [told.business / name for name in ("turnover_act_cj.csv", "turnover_act_size.csv")]
    if not all(file.is_file() for file in files):
        print("left out: the business tables are not here (KEYHOLE_DATA, --business)")
        return
    rules = ("N<3", "dominance 85%")
    words = TableOptions("TOT", nested=[f"ACTIVITY:{NACE}"], rule=rules, count="N_OBS", largest="MAX")
    drawn = read_tables(files, words)
    found = judge(drawn)
    report: dict[str, Any] = {
        "cells": len(drawn.hidden.publication.cells),
        "lines": len(drawn.hidden.publication.lines),
        "hidden by the rules": found.hidden.published,
        "of them recovered exactly": len(found.exposed),
        "of the others in too narrow a range": len({each.key for each in found.unprotected}),
    }
    for name, protects in (("against exact recovery", False), ("to the range of the rule", True)):
        start = time.process_time()
        repair = TableRepair(drawn, found, protects=protects)
        remedy = repair.show_what_follows(withhold(repair.proofs, seconds=told.seconds))
        report[name] = {
            "further cells": len(remedy.units),
            "at least": remedy.bound,
            "at least, by linear programming": round(remedy.relaxed, 1),
            "proofs": remedy.circuits,
            "CPU seconds": round(time.process_time() - start, 1),
        }
    with tempfile.TemporaryDirectory() as folder:
        suggestion = repair.suggest(remedy)
        written = write_protected_tables(drawn, suggestion, words, Path(folder) / "protected.csv")
    after = written.after
    report["as written"] = {
        "suppressed": after.hidden.published,
        "recovered": len(after.exposed),
        "in too narrow a range": len(after.unprotected),
        "exit code": after.exit_code,
    }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
