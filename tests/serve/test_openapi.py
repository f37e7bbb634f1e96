"""The OpenAPI document is what the server does: schemathesis asks it whatever the document allows, and forbids."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.specs.openapi.checks import ignored_auth, positive_data_acceptance
from tests.serve.serve_world import RunningServer, running
from tests.support.effort import effort

from keyhole.serve.http import describe_problems

SKIPPED = {"/v1/events", "/v1/audit"}  # one does not end, one takes seconds; tests of their own ask them

# the key stands in every call (a test below leaves it out); no schema says which texts are SQL that can be answered
NOT_MEANT = [ignored_auth, positive_data_acceptance]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running(tmp_path_factory.mktemp("openapi")) as opened:
        yield opened


@pytest.mark.parametrize("name", ["ann", "owner"])
def test_schemathesis_finds_nothing(server: RunningServer, name: str) -> None:
    schema = schemathesis.openapi.from_dict(server.get("/v1/openapi.json", name).json())
    head, asked = server.head(name), Counter[str]()
    for result in schema.get_all_operations():
        operation = result.ok()
        if operation.path in SKIPPED:
            continue

        @settings(
            max_examples=effort(100),
            deadline=None,
            derandomize=True,
            database=None,
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy())
        def play(case: schemathesis.Case) -> None:
            asked[case.path] += 1
            case.call_and_validate(base_url=server.url, headers=head, excluded_checks=NOT_MEANT)

        play()
    assert len(asked) == 8
    assert "ERROR" not in server.said()


def test_no_path_answers_without_a_key(server: RunningServer) -> None:
    document = server.get("/v1/openapi.json", "ann").json()
    for path, operations in document["paths"].items():
        for method in operations:
            for head in ({}, {"authorization": "Bearer kh_wrong"}, {"authorization": "Basic YTpi"}):
                assert httpx.request(method, server.url + path, headers=head).status_code in (401, 429)


def test_every_path_declares_its_key_and_its_problems(server: RunningServer) -> None:
    document = server.get("/v1/openapi.json", "ann").json()
    assert document["security"] == [{"key": []}]
    assert set(document["paths"]) == {
        "/v1/query", "/v1/check", "/v1/schema", "/v1/budget", "/v1/book", "/v1/denials", "/v1/versions", "/v1/events",
        "/v1/audit", "/v1/health",
    }  # fmt: skip
    for path in document["paths"].values():
        for operation in path.values():
            assert {"200", "401", "403", "429", "500", "503"} <= set(operation["responses"])
    assert "HTTPValidationError" not in str(document)
    assert describe_problems(document) == document
