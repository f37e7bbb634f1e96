"""dbt's artifacts: target/manifest.json (after `dbt compile`) or target/run_results.json."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from keyhole.errors import LogError
from keyhole.logs.exported import Exported, faulty, statements
from keyhole.logs.records import Text, document, joined, line_of
from keyhole.model.schema import fold_name
from keyhole.sql.dialects.engine import recognize_dialect
from keyhole.sql.statements.views import NotResolved, insert_views

_NO_SQL = ("seed", "source", "exposure", "metric", "semantic_model", "group", "macro")


def read(text: Text, name: str) -> Iterator[Exported]:
    """The compiled statements of models, analyses, tests and snapshots, in the order of the file.

    >>> node = '{"resource_type": "model", "compiled_code": "SELECT SUM(x) FROM t"}'
    >>> [f.sql for f in read('{"metadata": {}, "nodes": {"model.p.m": ' + node + "}}", "manifest.json")]
    ['SELECT SUM(x) FROM t']
    """
    text = joined(text)
    whole = document(text, name)
    if not isinstance(whole, Mapping) or not ("nodes" in whole or "results" in whole):
        raise LogError(
            f"{name} is no dbt artifact: it has neither nodes (manifest.json) nor results (run_results.json)"
        )
    metadata = whole.get("metadata")
    engine = recognize_dialect(metadata.get("adapter_type") if isinstance(metadata, Mapping) else None)
    models = _models(whole)
    for key, node in _nodes(whole):
        found = text.find(f'"{key}"')
        at = line_of(text, found) if found >= 0 else 1
        if not isinstance(node, Mapping):
            yield faulty(key, at, "it is not a node of dbt")
            continue
        if str(node.get("resource_type") or key.split(".")[0]) in _NO_SQL:
            continue
        language = str(node.get("language") or "sql")
        if language != "sql":
            yield faulty(key, at, f"it is written in {language}, not in SQL: what it publishes cannot be judged")
            continue
        sql = node.get("compiled_code") or node.get("compiled_sql")
        if not isinstance(sql, str) or not sql.strip():
            yield faulty(key, at, "it has no compiled code: run dbt compile and audit its manifest.json")
            continue
        others = {name: code for name, code in models.items() if code != sql}
        for part in statements(sql, at, engine):
            try:
                whole_sql = insert_views(part.sql, engine, others)
            except NotResolved as error:
                yield replace(part, at=at, unjudged=part.unjudged or str(error))
                continue
            yield replace(part, sql=whole_sql, at=at)


def _models(whole: Mapping[str, Any]) -> dict[str, str]:
    """The compiled code of the models, by the names under which others read them."""
    found: dict[str, str] = {}
    for key, node in _nodes(whole):
        code = node.get("compiled_code") or node.get("compiled_sql") if isinstance(node, Mapping) else None
        if isinstance(code, str) and key.startswith("model.") and str(node.get("language") or "sql") == "sql":
            found[fold_name(str(node.get("alias") or node.get("name") or key.split(".")[-1]))] = code.strip().rstrip(
                ";"
            )
    return found


def _nodes(whole: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    if isinstance(whole.get("nodes"), Mapping):
        yield from whole["nodes"].items()
        return
    results = whole.get("results")
    for number, result in enumerate(results if isinstance(results, list) else []):
        key = result.get("unique_id") if isinstance(result, Mapping) else None
        yield str(key or f"result {number + 1}"), result
