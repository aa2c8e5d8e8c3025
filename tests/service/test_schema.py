"""The OpenAPI document against the service: whatever it allows, nothing breaks."""

import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from similia.service.http.app import ENDPOINTS, Service
from similia.service.http.keys import SCOPES, Keys
from similia.service.http.openapi import document
from similia.service.settings import Settings
from tests.service.conftest import Running, some_items

schemathesis = pytest.importorskip("schemathesis")
from schemathesis import checks  # noqa: E402

OPERATIONS = {
    f"{found.ok().method.upper()} {found.ok().path}": found.ok()
    for found in schemathesis.openapi.from_dict(document(ENDPOINTS, "0")).get_all_operations()
}
#: cases for each operation; SCHEMA_EXAMPLES=200 looks longer
EXAMPLES = int(os.environ.get("SCHEMA_EXAMPLES", "10"))
#: a schema does not know which items there are, so what fits it may still be refused, with 422
checks.load_all_checks()
UNKNOWABLE = [checks.CHECKS.get_one("positive_data_acceptance")]


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    folder = tmp_path_factory.mktemp("schema")
    _, token = Keys(folder / "keys.json").add("*", SCOPES)
    service = Service(Settings(store=str(folder), port=0, rate=0.0, wrong_rate=0.0, max_batch=50))
    with Running(service) as found:
        service.tenants.get("default").put_items(some_items())
        service.create("team", shares="default")
        found.token = token
        yield found


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_operation_does_what_the_document_says(name, running):
    """No status, type or form of answer but those of the document, and no 5xx."""
    operation = OPERATIONS[name]

    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
    @given(case=operation.as_strategy(), tenant=st.sampled_from(["default", "team"]))
    def holds(case, tenant):
        if "tenant" in case.path_parameters and name != "PUT /v1/{tenant}":
            case.path_parameters["tenant"] = tenant
        case.call_and_validate(
            base_url=running.url,
            headers={"Authorization": f"Bearer {running.token}"},
            excluded_checks=UNKNOWABLE,
        )

    holds()
