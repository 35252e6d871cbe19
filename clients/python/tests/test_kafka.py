"""Two worker processes on real Kafka brokers. WATERCLOCK_TEST_KAFKA names them; test/python does."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
import waterclock
from waterclock import Client

from conftest import Serve, await_, python, receipts

BROKERS = os.environ.get("WATERCLOCK_TEST_KAFKA", "")
PROCESS = str(Path(__file__).parent / "worker_process.py")
ENV = {**os.environ, "PYTHONPATH": str(Path(waterclock.__file__).parents[1])}


@pytest.mark.skipif(not BROKERS, reason="WATERCLOCK_TEST_KAFKA names no brokers")
def test_one_of_two_workers_killed(tmp_path: Path) -> None:
    """kill -9 of one of two between work and receipt: its events come to the other one, each has its receipt."""
    prefix, n = f"py{time.time_ns():x}.", 60
    server = Serve(tmp_path / "data", BROKERS, prefix, "channels.kill.receipts=true",
                   "channels.kill.receipt_timeout=10m")
    files = [tmp_path / "calls-0", tmp_path / "calls-1"]
    workers: list[subprocess.Popen[bytes]] = []
    try:
        server.start()
        with Client(server.url) as client:
            for file, more in zip(files, (["die"], []), strict=True):
                file.touch()
                args = python(PROCESS, BROKERS, prefix, "kill", str(file), "10000", *more)
                workers.append(subprocess.Popen(args, env=ENV))
                await_("it has partitions", file.with_suffix(".ready").exists)
            results = client.batch({"id": f"kill-{i}", "delay": 0, "channel": "kill"} for i in range(n))
            assert all(r.ok for r in results)
            assert workers[0].wait(120) == -signal.SIGKILL
            for i in range(n):
                await_(f"{i} is delivered", lambda: client.get(f"kill-{i}").state == "FIRED", 120)
            workers[1].send_signal(signal.SIGTERM)
            assert workers[1].wait(60) == 0
    finally:
        for w in workers:
            w.kill()
            w.wait()
        server.stop()
    first, second = (file.read_text().split("\n")[:-1] for file in files)
    assert len(set(first + second)) == n, "each occurrence was handled"
    assert len(first) == 10 and first[9] in second, "what was worked on and not answered comes to the other worker"
    assert len(second) == len(set(second)), "the second one handles nothing twice"
    # What had its receipt is not handled a second time: at most what was in hand when it died is.
    assert len(set(first) & set(second)) <= 4
    written = receipts(BROKERS, prefix, "kill", n)
    died = first[9].split(" ")[0]
    assert second.count(first[9]) == 1 and sum(r["due_id"] == died for _, r in written) == 1, "its receipt is there once"
    assert {key for key, _ in written} == {f"kill-{i}".encode() for i in range(n)} and len(written) <= n + 4
    assert {r["outcome"] for _, r in written} == {"delivered"}
