"""Metrics, logs, traces, headers, pages."""

import io
import json
import logging
import re

import httpx
import pytest

from similia.service.http import journal
from similia.service.http.app import ENDPOINTS
from similia.service.http.keys import Keys
from similia.service.http.pages import PAGE_POLICY
from similia.service.http.telemetry import Traces
from tests.service.conftest import PATIENCE, triplet, until

STRICT = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
}


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/metrics", "/openapi.json", "/v1", "/x"])
def test_every_answer_has_strict_headers_and_a_request_id(shared, path):
    answer = shared.get(path)
    assert STRICT.items() <= dict(answer.headers).items()
    assert answer.headers["cache-control"] == "no-store"
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert answer.headers["x-request-id"]
    assert "server" not in answer.headers


def test_request_ids_of_others_are_taken_if_they_are_harmless(shared):
    for given, taken in (("abc-1.2_3", True), ("a b", False), ("x" * 65, False)):
        answer = shared.get("/livez", headers={"x-request-id": given})
        assert (answer.headers["x-request-id"] == given) == taken


def test_heads_are_answered_like_gets_without_a_body(shared):
    get, head = shared.get("/v1/default/status"), shared.head("/v1/default/status")
    assert head.status_code == 200
    assert head.content == b""
    assert head.headers["content-length"] == get.headers["content-length"]
    assert shared.head("/nothing").content == b""


def test_other_methods_are_told_which_there_are(shared):
    answer = shared.request("PATCH", "/v1/default/items/i1")
    assert answer.status_code == 405
    assert answer.headers["allow"] == "DELETE, GET, HEAD, PUT"
    assert shared.request("OPTIONS", "/v1/default/rank").status_code == 405


def test_pages_load_nothing_from_elsewhere(shared):
    page = shared.get("/docs")
    assert page.headers["content-security-policy"] == PAGE_POLICY
    files = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert "/docs/explorer.js" in files
    for file in files:
        assert file.startswith("/")
        answer = shared.get(file)
        assert answer.status_code == 200
        assert not re.search(r"https?://", answer.text)
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|eval\(", answer.text)
    again = shared.get("/docs", headers={"if-none-match": page.headers["etag"]})
    assert again.status_code == 304


def test_the_page_to_try_can_be_left_out(start):
    running = start(try_page=False)
    assert httpx.get(f"{running.url}/docs", timeout=PATIENCE).status_code == 404


def test_metrics_count_requests_and_judgements(http):
    http.post("/v1/default/feedback", json=triplet(id="a"))
    http.post("/v1/default/feedback", json=triplet(id="a"))
    http.get("/anything/at/all")
    page = http.get("/metrics").text
    for line in (
        'similia_acknowledged_total{duplicate="false",tenant="default"} 1.0',
        'similia_acknowledged_total{duplicate="true",tenant="default"} 1.0',
        'similia_requests_total{method="POST",route="/v1/{tenant}/feedback",status="200"} 2.0',
        'similia_requests_total{method="GET",route="none",status="404"} 1.0',
        'similia_items{tenant="default"} 30.0',
        "similia_ready 1.0",
    ):
        assert line in page


def test_logs_are_lines_of_json_without_secrets(start, tmp_path, capfd):
    """Neither keys nor bodies nor addresses with their queries are logged."""
    _, token = Keys(tmp_path / "store" / "keys.json").add("*", ("admin",))
    before = {
        name: list(logging.getLogger(name).handlers) for name in ("similia.service", "uvicorn")
    }
    journal.set_up("json", "debug")
    parts = []
    try:
        running = start()
        with httpx.Client(base_url=running.url, timeout=PATIENCE) as client:
            client.headers["authorization"] = f"Bearer {token}"
            client.post("/v1/default/feedback", json=triplet(source="private-words"))
            client.get("/v1/default/feedback?judge=private-judge")
            client.get("/v1/default/status", headers={"authorization": "Bearer sk_wrong_secret"})
            client.post("/v1/default/rank", content=b"{private")

        def logged():  # a line follows its answer
            parts.append(capfd.readouterr().err)
            return "".join(parts).count('"message":"request"') == 4

        until(logged)
    finally:
        for name, handlers in before.items():
            logging.getLogger(name).handlers[:] = handlers
            logging.getLogger(name).propagate = True
    text = "".join(parts)
    lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    requests = [line for line in lines if line["message"] == "request"]
    assert [line["status"] for line in requests] == [200, 200, 401, 415]
    assert all({"request_id", "method", "route", "ms"} <= line.keys() for line in requests)
    assert requests[0]["tenant"] == "default"
    for secret in (token, token.split("_", 2)[2], "private", "sk_wrong_secret"):
        assert secret not in text


def test_all_lines_are_written_in_order_whatever_their_haste():
    stream = io.StringIO()
    writer = journal.LineWriter(stream)
    writer.setFormatter(journal.JsonLines())
    for number in range(2 * journal.MAX_LINES):
        level = logging.WARNING if number % 100 == 7 else logging.INFO
        writer.handle(logging.LogRecord("x", level, "f", 1, str(number), (), None))
    until(lambda: len(stream.getvalue().splitlines()) == 2 * journal.MAX_LINES)
    messages = [json.loads(line)["message"] for line in stream.getvalue().splitlines()]
    assert messages == list(map(str, range(2 * journal.MAX_LINES)))
    stream.close()
    writer.handle(logging.LogRecord("x", logging.INFO, "f", 1, "too late", (), None))
    writer.close()


def test_errors_are_logged_with_their_traces():
    record = logging.LogRecord("x", logging.ERROR, "f", 1, "bad \n thing", (), None)
    record.details = {"request_id": "r1", "odd": object()}
    try:
        raise RuntimeError("inner")
    except RuntimeError as error:
        record.exc_info = (type(error), error, error.__traceback__)
    line = journal.JsonLines().format(record)
    assert "\n" not in line
    assert json.loads(line)["request_id"] == "r1"
    assert "RuntimeError: inner" in json.loads(line)["traceback"]
    assert "request_id=r1" in journal.Lines().format(record)


def test_lines_for_people_show_what_a_terminal_would_obey():
    record = logging.LogRecord("x", logging.ERROR, "f", 1, "%s is odd", ("\x1b[2J",), None)
    try:
        raise RuntimeError("\x1b[2J")
    except RuntimeError as error:
        record.exc_info = (type(error), error, error.__traceback__)
    line = journal.Lines().format(record)
    assert "\x1b" not in line
    assert line.count("x1b[2J") >= 2


def test_traces_continue_those_of_callers(start):
    pytest.importorskip("opentelemetry.sdk")
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter = InMemorySpanExporter()
    running = start()
    running.service.traces = Traces(exporter)
    trace = "0af7651916cd43dd8448eb211c80319c"
    headers = {"traceparent": f"00-{trace}-b7ad6b7169203331-01"}
    httpx.get(f"{running.url}/v1/default/status", headers=headers, timeout=PATIENCE)
    running.service.traces._provider.force_flush()
    span = exporter.get_finished_spans()[-1]
    assert span.name == "GET /v1/{tenant}/status"
    assert f"{span.context.trace_id:032x}" == trace
    assert span.attributes["http.response.status_code"] == 200


def test_every_operation_has_a_name_of_its_own_and_a_sentence():
    names = [endpoint.handle.__name__ for endpoint in ENDPOINTS]
    assert len(set(names)) == len(names)
    assert all(endpoint.handle.__doc__ for endpoint in ENDPOINTS)
