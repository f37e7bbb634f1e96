"""Fewest queries on a real roster: who can be given away by which questions, and who cannot."""

from keyhole.attack.plan.planner import How, Planner, QueryPlan
from keyhole.attack.plan.profiles import Profiles
from keyhole.attack.plan.question import OPERATORS, CodedColumn, counts_sql, group_sql, operators, question_sql
from keyhole.attack.plan.roster import profiles_of, unwritten
from keyhole.attack.plan.ways import Ways

__all__ = [
    "OPERATORS",
    "CodedColumn",
    "How",
    "Planner",
    "Profiles",
    "QueryPlan",
    "Ways",
    "counts_sql",
    "group_sql",
    "operators",
    "profiles_of",
    "question_sql",
    "unwritten",
]
