"""A `waterclock dev` for the tests. WATERCLOCK_BIN names the binary; test/python builds it and runs these tests."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from waterclock import KafkaClient

CASES = Path(__file__).parents[2] / "conformance" / "cases.jsonl"


def cases(kind: str) -> list[Any]:
    found = [json.loads(line) for line in CASES.read_text().rstrip().split("\n")]
    return [pytest.param(c, id=c["name"]) for c in found if c["kind"] == kind]


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


class Dev:
    """A server that can be killed, and started again with the same data and ports."""

    def __init__(self, data: Path, *settings: str) -> None:
        self.binary = os.environ.get("WATERCLOCK_BIN") or "waterclock"
        self.data, self.settings = data, settings
        self.http, self.kafka = (f"127.0.0.1:{free_port()}" for _ in range(2))
        self.url = "http://" + self.http
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with open(self.data.with_suffix(".log"), "ab") as log:
            self.process = subprocess.Popen([self.binary, *self.command()], stdout=log, stderr=log)
        end = time.monotonic() + 60
        while time.monotonic() < end:
            try:
                if httpx.get(self.url + "/readyz", trust_env=False).status_code == 200:
                    return
            except httpx.HTTPError:
                pass
            if self.process.poll() is not None:
                break
            time.sleep(0.05)
        raise AssertionError("dev is not ready: " + self.data.with_suffix(".log").read_text()[-3000:])

    def command(self) -> list[str]:
        return ["dev", "--listen", self.http, "--kafka-listen", self.kafka, "--data-dir", str(self.data), *self.sets()]

    def sets(self) -> list[str]:
        return [part for s in self.settings for part in ("--set", s)]

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def freeze(self) -> None:
        """SIGSTOP, and wait until the last thread has stopped: until then it may still answer a request."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)
        _, status = os.waitpid(self.process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.kill()


class Serve(Dev):
    """An engine on real brokers, on topics of its own."""

    def __init__(self, data: Path, brokers: str, prefix: str, *settings: str) -> None:
        super().__init__(data, f"topics.prefix={prefix}", f"group={prefix.rstrip('.')}", "topics.partitions=4", *settings)
        self.kafka, self.admin = brokers, f"127.0.0.1:{free_port()}"

    def start(self) -> None:
        def applied() -> bool:  # brokers that have much else to do may answer too late for one run of it
            return subprocess.run([self.binary, "topics", "apply", "--brokers", self.kafka, *self.sets()],
                                  stdout=subprocess.DEVNULL, timeout=120).returncode == 0

        await_("its topics are there", applied, 180)
        super().start()

    def command(self) -> list[str]:
        return ["serve", "--roles", "engine,api", "--brokers", self.kafka, "--listen", self.http, "--admin-listen",
                self.admin, "--data-dir", str(self.data), *self.sets()]


@pytest.fixture(scope="session")
def dev(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dev]:
    d = Dev(tmp_path_factory.mktemp("dev") / "data", "channels.confirmed.receipts=true", "channels.work.receipts=true",
            "channels.urgent.receipts=true", "channels.urgent.high_lane=true", "channels.kill.receipts=true",
            "channels.two.receipts=true", "channels.work.retry=100ms,100ms", "channels.hook.receipts=true",
            "channels.hook.retry=100ms,100ms")
    try:
        d.start()
        yield d
    finally:
        d.stop()


@pytest.fixture(scope="session")
def kafka(dev: Dev) -> Iterator[KafkaClient]:
    with KafkaClient(dev.kafka) as client:
        yield client


def await_(what: str, done: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end, f"not in {seconds} s: {what}"
        time.sleep(0.05)


def receipts(brokers: str, prefix: str, channel: str, want: int) -> list[tuple[bytes, Any]]:
    """All receipts of a channel, once there are as many and no more come."""
    from confluent_kafka import Consumer

    group = f"{prefix}test-{time.time_ns()}"
    consumer = Consumer({"bootstrap.servers": brokers, "group.id": group, "auto.offset.reset": "earliest"})
    consumer.subscribe([prefix + "receipts"])
    found: list[tuple[bytes, Any]] = []

    def more(seconds: float) -> int:
        read = [(m.key(), json.loads(m.value())) for m in consumer.consume(1000, timeout=seconds) if m.error() is None]
        found.extend(r for r in read if r[1]["channel"] == channel)
        return len(read)

    def enough() -> bool:
        more(0.2)
        return len(found) >= want

    try:
        await_(f"{want} receipts", enough)
        while more(1):
            pass
    finally:
        consumer.close()
    return found


def python(*args: str) -> list[str]:
    return [sys.executable, *args]
