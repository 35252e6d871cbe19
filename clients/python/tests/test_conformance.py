"""Every case of clients/conformance/cases.jsonl, against Client and AsyncClient."""

from __future__ import annotations

import base64
import json
import secrets
import socketserver
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any
from urllib.parse import parse_qs

import pytest
from waterclock import ApiError, Client, Command, KafkaClient, Retry, SignatureError, webhook
from waterclock._murmur2 import partition
from waterclock.worker import DueEvent, Garbled, Outcome, Result, decode
from waterclock.worker import call as call_handler
from waterclock.worker.result import Suppress, receipt
from waterclock.worker.state import Memory, read_receipt

from calls import TYPES, Synchronous, call, call_kafka, error_json
from conftest import CASES, Dev, cases
from match import fill, mismatch

KINDS = {"http", "wire", "command", "signature", "receipt", "due", "memory"}


def test_all_kinds_are_known() -> None:
    found = {json.loads(line)["kind"] for line in CASES.read_text().rstrip().split("\n")}
    assert found == KINDS


def outcome(run: Callable[[], Any], case: dict[str, Any], names: dict[str, Any]) -> tuple[str, Any]:
    """Why the result is not the expected one, and the result."""
    try:
        got = run()
    except ApiError as error:
        if "error" not in case:
            return f"raised {error_json(error)}", None
        want = fill(case["error"], names)
        assert "type" not in want or type(error) is TYPES[want["type"]] or isinstance(error, TYPES[want["type"]])
        return mismatch(want, error_json(error), "error"), None
    if "error" in case:
        return f"did not raise, and gave {got!r}", got
    return mismatch(fill(case.get("expect", {}), names), got, "result") if "expect" in case else "", got


# --- http -----------------------------------------------------------------------


class Undecided(Exception):
    """A write was not decided within the server's 2 seconds: a busy machine."""


def http_case(case: dict[str, Any], client: Any, kafka: KafkaClient) -> None:
    names: dict[str, Any] = {"run": "r" + secrets.token_hex(5), "tenant": "default"}
    for i, step in enumerate(case["steps"]):
        assert set(step) <= {"call", "args", "via", "expect", "error", "eventually", "save"}

        def run(step: dict[str, Any] = step) -> Any:
            args = fill(step["args"], names)
            if step.get("via") == "kafka":
                return call_kafka(kafka, step["call"], args)
            got = call(client, step["call"], args)
            if isinstance(got, dict) and got.get("decided") is False and not args.get("async"):
                raise Undecided
            return got

        end = time.monotonic() + (20 if step.get("eventually") else 0)
        while True:
            wrong, got = outcome(run, step, names)
            if not wrong or time.monotonic() > end:
                break
            time.sleep(0.05)
        assert not wrong, f"step {i}, {step['call']}: {wrong}"
        for name, field in step.get("save", {}).items():
            names["saved." + name] = got[field]


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize("case", cases("http"))
def test_http(case: dict[str, Any], kind: str, dev: Dev, kafka: KafkaClient) -> None:
    client: Any = Client(dev.url) if kind == "sync" else Synchronous(dev.url)
    try:
        for n in range(6):
            try:
                http_case(case, client, kafka)
                break
            except Undecided:
                assert n < 5, "six times a write was not decided"
    finally:
        client.close()


# --- wire -----------------------------------------------------------------------


class Script:
    """Plays the server of one case."""

    def __init__(self, steps: list[dict[str, Any]], names: dict[str, Any]) -> None:
        self.steps, self.names, self.wrong, self.played = steps, names, [], 0  # type: ignore[var-annotated]
        script = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_one_request(self) -> None:
                super().handle_one_request()

            def serve(self) -> None:
                script.serve(self)

            do_GET = do_PUT = do_POST = do_PATCH = do_DELETE = serve

            def log_message(self, *_: Any) -> None:
                pass

        class Server(socketserver.ThreadingMixIn, HTTPServer):
            daemon_threads = True

        self.server = Server(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def serve(self, h: BaseHTTPRequestHandler) -> None:
        body = h.rfile.read(int(h.headers.get("content-length") or 0))
        if self.played >= len(self.steps):
            self.wrong.append(f"one request too many: {h.command} {h.path}")
            h.close_connection = True
            return
        step = self.steps[self.played]
        self.played += 1
        try:
            self.check(step["request"], h, body)
        except Exception as error:
            self.wrong.append(repr(error))
        self.reply(step["answer"], h)

    def check(self, raw: dict[str, Any], h: BaseHTTPRequestHandler, body: bytes) -> None:
        known = {"method", "path", "query", "headers", "absent_headers", "body", "lines", "save_headers", "save_lines"}
        assert set(raw) <= known, set(raw) - known
        for name, header in raw.get("save_headers", {}).items():
            self.names["saved." + name] = h.headers[header]
        want = fill(raw, self.names)
        path, _, query = h.path.partition("?")
        got: dict[str, Any] = {"method": h.command, "path": path, "headers": {}}
        for name in want.get("headers", {}):
            got["headers"][name] = h.headers.get(name)
        for name in want.get("absent_headers", []):
            assert h.headers.get(name) is None, f"header {name} is there"
        if "query" in want:
            got["query"] = parse_qs(query, keep_blank_values=True)
            assert set(got["query"]) == set(want["query"]), got["query"]
        if "body" in want:
            assert json.loads(body) == want.pop("body"), body
        lines = [json.loads(line) for line in body.split(b"\n") if line] if "lines" in want else []
        got["lines"] = lines
        for name, (at, field) in raw.get("save_lines", {}).items():
            self.names["saved." + name] = lines[at][field]
        for name in ("absent_headers", "save_headers", "save_lines"):
            want.pop(name, None)
        wrong = mismatch(want, got, "request")
        assert not wrong, wrong

    def reply(self, answer: dict[str, Any], h: BaseHTTPRequestHandler) -> None:
        assert set(answer) <= {"status", "headers", "body", "text", "close", "content_length"}, answer
        if "status" not in answer:
            h.close_connection = True
            h.connection.close()
            return
        text = json.dumps(answer["body"]) if "body" in answer else answer.get("text", "")
        h.send_response(answer["status"])
        for name, value in answer.get("headers", {}).items():
            h.send_header(name, value)
        h.send_header("Content-Length", str(answer.get("content_length", len(text.encode()))))
        h.end_headers()
        h.wfile.write(text.encode())
        h.wfile.flush()
        if answer.get("close"):
            h.close_connection = True

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize("case", cases("wire"))
def test_wire(case: dict[str, Any], kind: str) -> None:
    assert set(case) <= {"name", "kind", "call", "args", "script", "client", "expect", "error", "min_elapsed_ms"}
    names: dict[str, Any] = {"run": "r", "tenant": "default"}
    options = dict(case.get("client", {}))
    script = Script(case["script"], names)
    url = f"http://127.0.0.1:{script.port}{options.pop('base_path', '')}"
    retry = Retry(retries=options.pop("retries", 3), first=0.001, most=0.001,
                  max_wait=options.pop("max_wait_ms", 30_000) / 1000)
    make: Any = Client if kind == "sync" else Synchronous
    client = make(url, retry=retry, token=options.pop("token", None))
    assert not options, options
    begin = time.monotonic()
    try:
        wrong, _ = outcome(lambda: call(client, case["call"], fill(case["args"], names)), case, names)
        elapsed = time.monotonic() - begin
    finally:
        client.close()
        script.close()
    assert not script.wrong, script.wrong
    assert not wrong
    assert script.played == len(script.steps), f"{script.played} of {len(script.steps)} requests"
    assert elapsed * 1000 >= case.get("min_elapsed_ms", 0)


# --- command --------------------------------------------------------------------


@pytest.mark.parametrize("case", cases("command"))
def test_command(case: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    assert set(case) <= {"name", "kind", "call", "args", "tenant", "record", "error"}
    written: list[Command] = []
    client = KafkaClient("127.0.0.1:1", tenant=case["tenant"])
    monkeypatch.setattr(client, "write", written.append)
    wrong, _ = outcome(lambda: call_kafka(client, case["call"], case["args"]), case, {})
    assert not wrong
    if "error" in case:
        assert not written
        return
    want, [got] = case["record"], written
    assert client.topic == want["topic"] and got.key == want["key"] and got.value is not None
    assert [[k, v.decode()] for k, v in got.headers] == want["headers"]
    assert json.loads(got.value) == want["value"]
    assert partition(got.key.encode(), want["partitions"]) == want["partition"]


# --- signatures -----------------------------------------------------------------


@pytest.mark.parametrize("case", cases("signature"))
def test_signature(case: dict[str, Any]) -> None:
    body = base64.b64decode(case["body_base64"]) if "body_base64" in case else case["body"].encode()

    def verify() -> str:
        return webhook.verify(case["secrets"], case["headers"], body, tolerance=case["tolerance_seconds"],
                              now=case["now"])

    if case.get("ok"):
        assert verify() == {k.lower(): v for k, v in case["headers"].items()}["webhook-id"]
        if "reads" in case:
            check_read(case, body)
        return
    with pytest.raises(SignatureError) as raised:
        verify()
    assert raised.value.reason == case["error"]


def check_read(case: dict[str, Any], body: bytes) -> None:
    """What a verified webhook is read as."""
    want = case["reads"]
    got = webhook.receive(case["secrets"], case["headers"], body, tolerance=case["tolerance_seconds"], now=case["now"])
    assert (got.trigger_id, got.attempt) == (want["trigger_id"], want.get("attempt", 1))
    if want.get("raw"):
        assert got.payload == body
    elif "payload_base64" in want:
        assert got.payload == base64.b64decode(want["payload_base64"])
    else:
        assert got.payload == want["payload"]


# --- the worker's records -------------------------------------------------------


def due(case: dict[str, Any]) -> DueEvent:
    record = case["due"]
    value = None if record.get("value") is None else record["value"].encode()
    return decode("waterclock.due.sms", 0, 0, 0, record["key"].encode(), value,
                  [(k, v.encode()) for k, v in record["headers"]], False)


def stamp(at: datetime | None) -> str | None:
    return None if at is None else at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@pytest.mark.parametrize("case", cases("due"))
def test_due(case: dict[str, Any]) -> None:
    assert set(case) <= {"name", "kind", "due", "event", "garbled"}
    if "garbled" in case:
        with pytest.raises(Garbled) as raised:
            due(case)
        assert raised.value.header == case["garbled"]
        return
    e = due(case)
    got = {
        "id": e.id, "key": e.key, "tenant": e.tenant, "trigger_id": e.trigger_id, "occurrence": e.occurrence,
        "step": e.step, "attempt": e.attempt, "postponed": e.postponed, "revision": e.revision,
        "scheduled": stamp(e.scheduled), "fired": stamp(e.fired), "local_time": e.local_time, "user": e.user,
        "expires": stamp(e.expires), "receipt_by": stamp(e.receipt_by), "source": e.source, "basis": e.basis,
        "content_type": e.content_type, "payload": e.payload.decode(), "traceparent": e.traceparent,
        "tracestate": e.tracestate, "headers": [[k, v.decode()] for k, v in e.headers], "tags": dict(e.tags),
        "record_key": e.record_key.decode(),
    }
    assert set(case["event"]) <= set(got), set(case["event"]) - set(got)
    assert not mismatch(case["event"], got, "event")


class Panic(BaseException):
    pass


@pytest.mark.parametrize("case", cases("receipt"))
def test_receipt(case: dict[str, Any]) -> None:
    assert set(case) <= {"name", "kind", "channel", "now", "due", "result", "record"}
    given = dict(case["result"])

    def handle(_: DueEvent) -> Result:
        if "throws" in given:
            raise RuntimeError(given["throws"])
        if "panics" in given:
            raise Panic(given["panics"])
        if given.pop("none", False):
            return None  # type: ignore[return-value]
        return Result(Outcome(given.pop("outcome")), given.pop("code", ""), given.pop("detail", ""),
                      given.pop("after_ms", 0) / 1000)

    event = due(case)
    value = receipt(event, case["channel"], call_handler(handle, event), datetime.fromisoformat(case["now"]))
    assert not set(given) - {"throws", "panics"}
    got, want = json.loads(value), case["record"]
    assert event.key == want["key"] and want["headers"] == []
    assert not mismatch(want["value"], got, "receipt")
    assert set(got) == {k for k, v in want["value"].items() if v != "{absent}"}


@pytest.mark.parametrize("case", cases("memory"))
def test_memory(case: dict[str, Any]) -> None:
    assert set(case) <= {"name", "kind", "channel", "now", "receipts", "due", "do", "reason"}
    memory = Memory(100)
    for offset, r in enumerate(case["receipts"]):
        value = r["value"] if isinstance(r["value"], str) else json.dumps(r["value"])
        seen = read_receipt(case["channel"], r["key"].encode(), value.encode())
        if seen is not None:
            memory.add(*seen, offset)
    event, now = due(case), datetime.fromisoformat(case["now"]).timestamp()
    from waterclock.worker.state import judge

    verdict = judge(memory, event, now)
    assert verdict == {"handle": "", "skip": case.get("reason"), "expire": "expired"}[case["do"]]
    assert Suppress("expired").code == "expired"
