"""Fewest queries on a real roster: who can be given away by which questions, and who cannot."""

from keyhole.attacks.plan.allowed_questions import AllowedQuestions
from keyhole.attacks.plan.joint import Domain, Formula, JointPlan, plan_jointly
from keyhole.attacks.plan.planner import How, Planner, QueryPlan
from keyhole.attacks.plan.profiles import Profiles, build_profiles, list_unwritten_columns
from keyhole.attacks.plan.question import OPERATORS, CodedColumn, counts_sql, group_sql, parse_operators, question_sql

__all__ = [
    "OPERATORS",
    "AllowedQuestions",
    "CodedColumn",
    "Domain",
    "Formula",
    "How",
    "JointPlan",
    "Planner",
    "Profiles",
    "QueryPlan",
    "build_profiles",
    "counts_sql",
    "group_sql",
    "list_unwritten_columns",
    "parse_operators",
    "plan_jointly",
    "question_sql",
]
