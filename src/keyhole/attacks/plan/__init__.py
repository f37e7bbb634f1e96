"""Fewest queries on a real roster: who can be given away by which questions, and who cannot."""

from keyhole.attacks.plan.allowed_questions import Ways
from keyhole.attacks.plan.planner import How, Planner, QueryPlan
from keyhole.attacks.plan.profiles import Profiles, profiles_of, unwritten
from keyhole.attacks.plan.question import OPERATORS, CodedColumn, counts_sql, group_sql, operators, question_sql

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
