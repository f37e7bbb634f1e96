"""A made-up hospital of 5,000 patients, and what five analysts asked about it in two weeks: for `keyhole demo`."""

from __future__ import annotations

import datetime as dt
import json
import random
from collections.abc import Iterator

PATIENTS = 5_000
START = dt.date(2026, 3, 2)  # a Monday
WARDS = ("cardiology", "surgery", "oncology", "neurology", "maternity", "orthopaedics", "intensive care", "geriatrics")
TOWNS = ("Northfield", "Eastbrook", "Southwell", "Westham", "Kingsford", "Millbank", "Oakham", "Redhill", "Stonebridge")
GIVEN = ("Ada", "Ben", "Cleo", "Dan", "Eva", "Finn", "Gia", "Hugo", "Ines", "Jon", "Kim", "Leo", "Mia", "Noah", "Olga")
FAMILY = (
    "Abel",
    "Berg",
    "Cole",
    "Dahl",
    "Eder",
    "Frost",
    "Gray",
    "Holm",
    "Iden",
    "Jung",
    "Kern",
    "Lund",
    "Moor",
    "Nagy",
)
SEED = 20260302


def clinic_csv() -> str:
    """One row a patient: name, ward, town, age, sex and day of admission are public, blood sugar is not."""
    return "".join(f"{','.join(row)}\n" for row in _patients())


def _patients() -> Iterator[list[str]]:
    rng = random.Random(SEED)
    yield ["patient", "ward", "town", "age", "sex", "admitted", "blood_sugar"]
    for number in range(1, PATIENTS + 1):
        ward = rng.choices(WARDS, weights=(9, 10, 6, 5, 6, 7, 2, 5))[0]
        old = {"maternity": (18, 45), "geriatrics": (70, 101)}.get(ward, (0, 97))
        age = min(old[1], max(old[0], round(rng.gauss(sum(old) / 2, (old[1] - old[0]) / 5))))
        sex = "f" if ward == "maternity" or rng.random() < 0.51 else "m"
        day = START - dt.timedelta(days=rng.randrange(0, 60))
        sugar = max(3.0, min(20.0, rng.gauss(5.6, 0.9) + (3 if rng.random() < 0.08 else 0)))
        who = f"{rng.choice(GIVEN)} {rng.choice(FAMILY)} {number:04d}"
        yield [who, ward, rng.choice(TOWNS), str(age), sex, day.isoformat(), f"{sugar:.1f}"]


def clinic_log() -> str:
    """A transcript without answers, so that they are computed: {"sql", "analyst", "time"} a line, earliest first."""
    rng = random.Random(SEED + 1)
    asked = []
    for day in range(14):
        date = START + dt.timedelta(days=day)
        for analyst, questions in _ANALYSTS.items():
            count = 0 if date.weekday() >= 5 and analyst != "night report" else rng.randint(2, 6)
            for _ in range(count):
                minute = rng.randrange(8 * 60, 18 * 60)
                time = f"{date.isoformat()}T{minute // 60:02d}:{minute % 60:02d}:00"
                asked.append((time, analyst, questions(rng)))
    lines = [{"sql": sql, "analyst": who, "time": time} for time, who, sql in sorted(asked)]
    return "".join(json.dumps(line) + "\n" for line in lines)


def _by_ward(rng: random.Random) -> str:
    measure = rng.choice(("AVG(blood_sugar)", "SUM(blood_sugar)", "COUNT(*)"))
    return f"SELECT {rng.choice(('ward', 'town', 'sex'))}, {measure} FROM patients GROUP BY 1"


def _by_age(rng: random.Random) -> str:
    low = rng.randrange(0, 9) * 10
    return f"SELECT AVG(blood_sugar), COUNT(*) FROM patients WHERE age >= {low} AND age < {low + 10}"


def _epidemiology(rng: random.Random) -> str:
    ward, sex = rng.choice(WARDS), rng.choice("fm")
    older = rng.randint(60, 96)
    return f"SELECT SUM(blood_sugar) FROM patients WHERE ward = '{ward}' AND sex = '{sex}' AND age >= {older}"


def _quality(rng: random.Random) -> str:
    day = START - dt.timedelta(days=rng.randrange(0, 20))
    town = rng.choice(TOWNS)
    return f"SELECT AVG(blood_sugar) FROM patients WHERE town = '{town}' AND admitted >= DATE '{day.isoformat()}'"


def _research(rng: random.Random) -> str:
    wards = sorted(rng.sample(WARDS, 2))
    return f"SELECT town, SUM(blood_sugar) FROM patients WHERE ward IN ('{wards[0]}', '{wards[1]}') GROUP BY town"


_ANALYSTS = {
    "night report": _by_ward,
    "Amira (controlling)": _by_age,
    "Bo (epidemiology)": _epidemiology,
    "Chen (quality)": _quality,
    "Dora (research)": _research,
}
