"""The OpenAPI is kept: whatever schemathesis makes of it, no answer is a 5xx or other than declared."""

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable

from servers import Client, serving
from zoos import TASKS, small_zoo

pytestmark = pytest.mark.slow  # servers are started

schemathesis = pytest.importorskip("schemathesis")
from schemathesis.specs.openapi.checks import positive_data_acceptance  # noqa: E402


@pytest.fixture(scope="module")
def client(tmp_path_factory) -> Iterator[Client]:
    zoo = small_zoo(tmp_path_factory.mktemp("declared") / "zoo", TASKS[:1])
    with serving(zoo.path, token="open-sesame", learns=True) as client:
        yield client


@pytest.mark.parametrize("mode", list(schemathesis.GenerationMode), ids=lambda mode: mode.value)
@pytest.mark.parametrize("name", [None, "stripes"], ids=["any name", "a known name"])
def test_every_answer_is_as_declared(client, mode, name) -> None:
    headers = {"Authorization": f"Bearer {client.token}"}
    schema = schemathesis.openapi.from_url(f"{client.url}/openapi.json", headers=headers)
    tested = set()
    for operation in (result.ok() for result in schema.get_all_operations()):
        if name is not None and "{name}" not in operation.path:
            continue

        @settings(
            max_examples=8, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
        )
        @given(case=operation.as_strategy(generation_mode=mode))
        def ask(case) -> None:
            if name is not None:
                case.path_parameters = {"name": name}
            answer = case.call_and_validate(
                headers=headers, excluded_checks=[positive_data_acceptance]
            )  # only the zoo knows its rows
            assert answer.status_code < 500

        try:
            ask()
        except Unsatisfiable:
            continue  # there is no wrong way to ask it
        tested.add(f"{operation.method} {operation.path}")
    assert "post /tasks/{name}/predict" in tested
