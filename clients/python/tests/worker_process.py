"""A worker as a process, which can be killed.

worker_process.py BROKERS CHANNEL FILE [die]

FILE gets a line for each call: ce_id, attempt. With die it kills itself in its tenth call, between work and receipt.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

from waterclock import worker

brokers, channel, path = sys.argv[1:4]
die = len(sys.argv) > 4
lock, calls = threading.Lock(), 0


def handle(event: worker.DueEvent) -> worker.Result:
    global calls
    with lock:
        with open(path, "a") as f:
            f.write(f"{event.id} {event.attempt}\n")
        calls += 1
        if die and calls == 10:
            end = time.monotonic() + 20
            while this.stats()["pending"] and time.monotonic() < end:
                time.sleep(0.01)  # until the receipts of those before stand
            os.kill(os.getpid(), signal.SIGKILL)
    return worker.Delivered()


this = worker.Worker(channel, handle, brokers=brokers, concurrency=4, consumer={"session.timeout.ms": 6000})
this.run()
