"""What a SELECT says of itself, from its text alone: its columns, its tables, divisions, and what would ask less."""

from __future__ import annotations

from sqlglot import exp

from keyhole.errors import QueryError
from keyhole.sql.dialects.engine import Dialect
from keyhole.sql.statements.parse import parse_select, parse_statement


def find_aggregate_positions(sql: str) -> tuple[int, ...]:
    """Places (from 1) of the items of the outermost SELECT that aggregate; none if the text cannot be parsed.

    >>> find_aggregate_positions("SELECT dept, SUM(pay), 'x' AS note, COUNT(*) - 1 FROM t GROUP BY dept")
    (2, 4)
    """
    return tuple(i for i, item in enumerate(_list_items(sql), 1) if item.find(exp.AggFunc) is not None)


def list_item_names(sql: str) -> tuple[str, ...]:
    """The names of the columns of an answer, empty where an item has none; nothing if the text cannot be parsed.

    >>> list_item_names("SELECT dept AS d, zip, SUM(pay) FROM t GROUP BY dept, zip")
    ('d', 'zip', '')
    """
    return tuple(item.alias_or_name for item in _list_items(sql))


def _list_items(sql: str) -> list[exp.Expr]:
    """The items of the outermost SELECT; none if there is a star among them, or if the text cannot be parsed."""
    tree = parse_statement(sql, Dialect.DUCKDB)
    if not isinstance(tree, exp.Select) or any(isinstance(e, exp.Star) for e in tree.expressions):
        return []
    return tree.expressions


def list_table_names(sql: str) -> frozenset[str]:
    """The names that a statement selects from, as written; with a dot where they are qualified.

    >>> sorted(list_table_names("WITH q AS (SELECT * FROM staff) SELECT SUM(pay) FROM q JOIN hr.pay USING (id)"))
    ['hr.pay', 'staff']
    """
    tree = parse_statement(sql, Dialect.DUCKDB)
    if tree is None:
        return frozenset()
    made = {cte.alias for cte in tree.find_all(exp.CTE)}
    found = (".".join(part.name for part in table.parts) for table in tree.find_all(exp.Table))
    return frozenset(name for name in found if name not in made)


def divides_before_adding(text: str) -> bool:
    """Does a statement divide single values, so that an engine adds rounded quotients up?

    >>> divides_before_adding("SELECT SUM(pay / 3) FROM t"), divides_before_adding("SELECT SUM(pay) / 3 FROM t")
    (True, False)
    """
    try:
        tree = parse_select(text)[1]
    except QueryError:
        return True
    return any(
        node.find_ancestor(exp.AggFunc) is not None or node.this.find(exp.AggFunc) is None
        for node in tree.find_all(exp.Div)
    )


def list_coarser_statements(text: str) -> list[str]:
    """The statement with one part of its WHERE or one key of its GROUP BY left out, and with several, fewest first.

    From the text alone. What cannot be parsed has none.

    >>> list_coarser_statements("SELECT AVG(pay) FROM staff WHERE dept = 'law' AND age < 30")
    ['SELECT AVG(pay) FROM staff WHERE age < 30', "SELECT AVG(pay) FROM staff WHERE dept = 'law'", \
'SELECT AVG(pay) FROM staff']
    """
    tree = parse_statement(text, Dialect.DUCKDB)
    if not isinstance(tree, exp.Select):
        return []
    coarser = [*_without_a_conjunct(tree), *_without_a_key(tree)]
    where = tree.args.get("where")
    if where is not None and isinstance(where.this, exp.And):
        bare = tree.copy()
        bare.set("where", None)
        coarser.append(bare.sql(dialect="duckdb"))
    return list(dict.fromkeys(each for each in coarser if each != tree.sql(dialect="duckdb")))


def _without_a_conjunct(tree: exp.Select) -> list[str]:
    where = tree.args.get("where")
    if where is None:
        return []
    parts = list(where.this.flatten()) if isinstance(where.this, exp.And) else [where.this]
    texts = []
    for at in range(len(parts)):
        kept = [part.copy() for k, part in enumerate(parts) if k != at]
        made = tree.copy()
        made.set("where", exp.Where(this=exp.and_(*kept)) if kept else None)
        texts.append(made.sql(dialect="duckdb"))
    return texts


def _without_a_key(tree: exp.Select) -> list[str]:
    group = tree.args.get("group")
    keys = list(group.expressions) if group is not None else []
    if group is None or any(part for name, part in group.args.items() if name != "expressions" and part):
        return []
    texts = []
    for at, key in enumerate(keys):
        made = tree.copy()
        kept = [k.copy() for place, k in enumerate(keys) if place != at]
        made.set("group", exp.Group(expressions=kept) if kept else None)
        made.set("expressions", [e.copy() for e in tree.expressions if e.unalias().sql() != key.sql()])
        if made.expressions:
            texts.append(made.sql(dialect="duckdb"))
    return texts
