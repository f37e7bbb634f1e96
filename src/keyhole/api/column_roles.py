"""Which role a column is likely to have: by its name, its kind and how many of its values differ."""

from __future__ import annotations

import re
from dataclasses import dataclass

from keyhole.datasets.survey import Surveyed, SurveyedTable
from keyhole.model.schema import Kind, Role

MANY = 50  # values of a number, from which on it is rather measured than a code
IDENTIFYING = 0.95  # share of a text's values that differ, from which on it names people as the id does
FEW_ROWS = 8  # in a smaller file any column may tell all rows apart


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


PERSON = _set("""
person patient subject customer employee member user client pupil student respondent citizen resident
""")
NAMES = _set("""
id ids name key nr no number uuid guid identifier index personid
""")
REPEATED = _set("name id uuid guid personid")  # of whoever has several rows
HIDDEN = _set("""
ssn email mail phone telephone mobile fax address street iban passport password licence license ip url
""")
PRIVATE = _set("""
pay salary wage wages income incomes earning earnings bonus gain gains loss losses charge charges cost costs price
amount balance debt credit loan rent tax taxes turnover revenue production profit sales benefit benefits sugar glucose
pressure cholesterol bmi diagnosis diagnoses disease illness ill condition hiv test result results score grade rating
mortality severity risk religion vote votes party crime conviction orientation pregnant drug drugs dose medication
treatment procedure stay hours visits absence sick symptom symptoms allergy diag dx icd los rx atc meds medicine
prescription therapy surgery complication comorbidity chronic lab labs hba creatinine crp ldl hdl egfr hemoglobin
haemoglobin potassium sodium troponin platelets pulse temperature flag smoker smoking alcohol diabetic diabetes
hypertension asthma cancer tumour tumor depression death died deceased readmitted readmission infected positive
vaccinated disabled disability
""")
PUBLIC = _set("""
age sex gender zip postcode postal city town state country county region district nation nationality race ethnicity
ethnic education degree occupation job profession department dept team unit title birth born birthday year month
quarter week weekday date marital relationship family workclass type size sector class category nuts area language
admission discharge weight wgt fnlwgt insurance status
""")


@dataclass(frozen=True, slots=True)
class Proposed:
    """A role for a column, and why."""

    role: Role
    why: str
    guessed: bool = False  # no rule recognised its name: somebody must look at it


def words_of(name: str) -> list[str]:
    """The words in a column's name.

    >>> words_of("PAT_AGE"), words_of("hoursPerWeek"), words_of("native-country")
    (['pat', 'age'], ['hours', 'per', 'week'], ['native', 'country'])
    """
    parted = re.sub(r"(?<=[a-zà-ÿ])(?=[A-Z])", " ", name)
    return [word.lower() for word in re.split(r"[^A-Za-zÀ-ÿ]+", parted) if word]


def propose(table: SurveyedTable) -> dict[str, Proposed]:
    """A role for every column of a table; one column, at most, is the id: a person may have several rows.

    >>> columns = (Surveyed("Name", Kind.TEXT, 0, 9), Surveyed("age", Kind.INTEGER, 0, 8))
    >>> [str(p.role) for p in propose(SurveyedTable("t", 9, columns, False)).values()]
    ['id', 'public']
    """
    chosen = _id(table)
    found = {}
    for column in table.columns:
        if column is chosen:
            why = (
                "every row has another value"
                if column.unique(table.rows)
                else "names a person, who may have several rows"
            )
            found[column.name] = Proposed(Role.ID, why)
        else:
            found[column.name] = _role(column, table.rows)
    return found


def _id(table: SurveyedTable) -> Surveyed | None:
    def rank(column: Surveyed) -> int:
        words = set(words_of(column.name))
        person, named = bool(words & PERSON), bool(words & NAMES) or not words
        alone = column.unique(table.rows)
        if person and named and (alone or column.nulls == 0):
            return 4
        if not alone and _names_people(column, table.rows):
            return 1
        if not alone or column.kind not in (Kind.INTEGER, Kind.TEXT) or words & HIDDEN:
            return 0
        return 3 if named else 2 if column is table.columns[0] and not words & (PRIVATE | PUBLIC) else 0

    ranked = [(rank(column), -at, column) for at, column in enumerate(table.columns)]
    best = max(ranked, key=lambda each: each[:2], default=None)
    return best[2] if best is not None and best[0] and table.rows > 1 else None


def _names_people(column: Surveyed, rows: int) -> bool:
    """Is it a column such as `patient` or `name`, full and with too many values for a category?"""
    words = set(words_of(column.name))
    many = column.distinct > max(2, rows // 20)
    return (
        bool(words)
        and words <= (PERSON | REPEATED)
        and column.kind in (Kind.INTEGER, Kind.TEXT)
        and not column.nulls
        and many
    )


def is_person(name: str) -> bool:
    """Does a name of a column or a table speak of people?

    >>> is_person("patient_id"), is_person("Patients"), is_person("states")
    (True, True, False)
    """
    return any(word in PERSON or word.removesuffix("s") in PERSON for word in words_of(name))


def as_key(column: str, proposed: Proposed, table: str) -> Proposed:
    """The role of a column that another table is joined on: public, since nothing can be joined on a secret.

    That is a guess if the column's name sounds private, or says nothing, and does not say that it is a key.

    >>> code, visit, state = Proposed(Role.PRIVATE, ""), Proposed(Role.PRIVATE, "", True), Proposed(Role.PUBLIC, "")
    >>> [as_key(*of, "t").guessed for of in (("diagnosis_id", code), ("visit_id", visit), ("state", state))]
    [True, False, False]
    """
    is_named_key = bool(set(words_of(column)) & NAMES)
    guessed = proposed.role is not Role.PUBLIC if not proposed.guessed else not is_named_key
    return Proposed(Role.PUBLIC, f"a key of {table}", guessed)


def sounds_public(name: str) -> bool:
    """Does a column's name speak of something that anybody may know, and of nothing else?

    >>> sounds_public("region"), sounds_public("test_date"), sounds_public("note")
    (True, False, False)
    """
    said = {stem for word in words_of(name) for stem in (word, word.removesuffix("s"))}
    return bool(said & PUBLIC) and not said & (PRIVATE | HIDDEN)


def _role(column: Surveyed, rows: int) -> Proposed:
    words = words_of(column.name)
    for role, known, why in (
        (Role.HIDDEN, HIDDEN, "names or reaches a person"),
        (Role.PRIVATE, PRIVATE, "its name sounds private"),
        (Role.PUBLIC, PUBLIC, "its name sounds public"),
    ):
        if word := next((word for word in words if word in known or word.removesuffix("s") in known), None):
            return Proposed(role, f"{why} ({word})")
    if any(word.endswith(("year", "date", "time")) for word in words):
        return Proposed(Role.PUBLIC, "its name sounds public")
    if column.kind in (Kind.DECIMAL, Kind.DOUBLE):
        return Proposed(Role.PRIVATE, "something measured", guessed=True)
    if column.kind is Kind.INTEGER and column.distinct > MANY:
        return Proposed(Role.PRIVATE, "a number with many values", guessed=True)
    if column.kind is Kind.TEXT and column.numerals > (rows - column.nulls) * 4 // 5 and column.distinct > 2:
        why = "numbers written as text: decimal and thousands under [source] name their signs"
        return Proposed(Role.PRIVATE, why, guessed=True)
    if column.kind is Kind.TEXT and rows > FEW_ROWS and column.distinct >= (rows - column.nulls) * IDENTIFYING > 0:
        return Proposed(Role.PUBLIC, "tells rows apart, as a second name of a person does", guessed=True)
    if column.kind in (Kind.TEXT, Kind.OTHER) and column.distinct > min(max(MANY, rows // 2), rows - 1):
        return Proposed(Role.PUBLIC, "almost every row has another text", guessed=True)
    why = "few values" if column.distinct <= MANY else "nothing speaks against it"
    return Proposed(Role.PUBLIC, why, guessed=True)
