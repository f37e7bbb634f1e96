"""Least and greatest value of everybody on a grid of 70 values, by CP-SAT: sorted copies of groups, and their places.

A process of its own, since OR-tools and highspy cannot be loaded into one. Standard input has a JSON list of
[people, [[aggregate, members, answer as p/q], ...]]; standard output gets the ends of everybody for each of them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from fractions import Fraction

from ortools.sat.python import cp_model


def find_ends(people: int, rows: Sequence[tuple[str, list[int], str]]) -> list[tuple[int, int]]:
    """Between which values each value lies in all tables that give these answers."""
    model = cp_model.CpModel()
    x = [model.new_int_var(1, 70, "") for _ in range(people)]
    for agg, who, text in rows:
        k, told = len(who), Fraction(text)
        if agg in ("SUM", "AVG"):
            model.add(sum(x[i] for i in who) == int(told * (k if agg == "AVG" else 1)))
        if agg in ("SUM", "AVG", "COUNT"):
            continue
        held = [model.new_int_var(1, 70, "") for _ in who]
        place = [[model.new_bool_var("") for _ in who] for _ in who]
        for r in range(k):
            model.add_exactly_one(place[r])
            model.add_exactly_one([line[r] for line in place])
            for q in range(k):
                model.add(held[r] == x[who[q]]).only_enforce_if(place[r][q])
        for r in range(1, k):
            model.add(held[r - 1] <= held[r])
        pair = {"MAX": (k - 1, k - 1), "MIN": (0, 0), "DISC": ((k - 1) // 2,) * 2}.get(agg, ((k - 1) // 2, k // 2))
        model.add(held[pair[0]] + held[pair[1]] == int(2 * told))
    return [(find_end(model, v, 1), find_end(model, v, -1)) for v in x]


def find_end(model: cp_model.CpModel, variable: cp_model.IntVar, sign: int) -> int:
    """The least value of a variable, or with -1 the greatest."""
    model.minimize(sign * variable)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    if solver.solve(model) != cp_model.OPTIMAL:
        raise RuntimeError("no table gives these answers")
    return int(solver.value(variable))


if __name__ == "__main__":
    json.dump([find_ends(people, rows) for people, rows in json.load(sys.stdin)], sys.stdout)
