"""Made-up tables for the corpora: a hospital, a subscription business, labour statistics. Seeded; no real person."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal
from typing import Any

import pyarrow as pa

PEOPLE = 600
SEED = 2026


def hospital() -> pa.Table:
    """One row a patient: charges, severity and diagnosis are private."""
    rng = random.Random(SEED)
    wards = ("surgery", "medicine", "cardiology", "oncology", "maternity", "emergency")
    ills = ("sepsis", "stroke", "heart failure", "diabetes", "asthma", "fracture")
    rows = []
    for i in range(PEOPLE):
        admitted = dt.date(2024, 1, 1) + dt.timedelta(days=rng.randrange(540))
        rows.append(
            {
                "patient_id": i + 1,
                "ward": rng.choice(wards),
                "sex": rng.choice("FM"),
                "age": rng.randrange(0, 95),
                "insurance": rng.choice(("private", "public", "none")),
                "admission_type": rng.choice(("emergency", "planned", "planned")),
                "zip": f"{rng.randrange(100, 130)}{rng.randrange(10, 99)}",
                "admitted": admitted,
                "discharged": admitted + dt.timedelta(days=rng.randrange(1, 30)),
                "charges": Decimal(rng.randrange(50_000, 9_000_000)) / 100,
                "severity": rng.randrange(0, 5),
                "diagnosis": rng.choice(ills),
            }
        )
    return _table(rows, {"charges": pa.decimal128(12, 2)})


def business() -> pa.Table:
    """One row a customer: revenue, orders and churned are private."""
    rng = random.Random(SEED + 1)
    cities = ("San Remo", "New Bern", "Ashville", "Coppell", "Dover", "San Mar", "Elmville", "Fargo", "Galt", "New Ulm")
    rows = []
    for i in range(PEOPLE):
        rows.append(
            {
                "customer_id": i + 1,
                "region": rng.choice(("north", "south", "east", "west")),
                "city": rng.choice(cities),
                "segment": rng.choice(("smb", "mid-market", "enterprise")),
                "plan": rng.choice(("free", "basic", "pro")),
                "age": rng.choice((None, *range(18, 80))),
                "signup": dt.date(2023, 7, 1) + dt.timedelta(days=rng.randrange(720)),
                "revenue": Decimal(rng.randrange(0, 800_000)) / 100,
                "orders": rng.randrange(0, 9),
                "churned": rng.random() < 0.2,
            }
        )
    return _table(rows, {"revenue": pa.decimal128(12, 2)})


def adult() -> pa.Table:
    """One row a person, columns like UCI Adult: capital_gain, capital_loss and income are private."""
    rng = random.Random(SEED + 2)
    schools = ("HS-grad", "Some-college", "Bachelors", "Masters", "Doctorate", "11th")
    jobs = ("Sales", "Craft-repair", "Exec-managerial", "Adm-clerical", "Tech-support")
    rows = []
    for i in range(PEOPLE):
        school = rng.randrange(len(schools))
        rows.append(
            {
                "person": i + 1,
                "age": rng.randrange(17, 90),
                "workclass": rng.choice(("Private", "State-gov", "Local-gov", "Self-emp")),
                "education": schools[school],
                "education_num": 9 + school,
                "marital": rng.choice(("Never-married", "Married", "Divorced")),
                "occupation": rng.choice(jobs),
                "relationship": rng.choice(("Husband", "Wife", "Own-child", "Unmarried")),
                "race": rng.choice(("White", "Black", "Other")),
                "sex": rng.choice(("Male", "Female")),
                "hours": rng.randrange(10, 70),
                "country": rng.choice(("United-States", "United-States", "Mexico")),
                "capital_gain": rng.choice((0, 0, 0, rng.randrange(100, 20_000))),
                "capital_loss": rng.choice((0, 0, 0, 0, rng.randrange(100, 3_000))),
                "income": rng.choice(("<=50K", "<=50K", ">50K")),
            }
        )
    return _table(rows, {})


def _table(rows: list[dict[str, Any]], kinds: dict[str, pa.DataType]) -> pa.Table:
    names = list(rows[0])
    return pa.table({name: pa.array([row[name] for row in rows], kinds.get(name)) for name in names})
