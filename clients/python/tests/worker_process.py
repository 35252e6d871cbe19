"""A worker as a process, which can be killed.

worker_process.py BROKERS PREFIX CHANNEL FILE SESSION_MS [die]

FILE gets a line for each call: ce_id, attempt. FILE.ready is made once it has partitions. With die it kills itself in its
tenth call, between work and receipt.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

from waterclock import worker

brokers, prefix, channel, path, session = sys.argv[1:6]
die = len(sys.argv) > 6
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


class Ready(worker.Metrics):
    def load(self, load: worker.Load) -> None:
        if load.assigned and not load.held:
            open(path + ".ready", "w").close()


this = worker.Worker(channel, handle, brokers=brokers, prefix=prefix, group=prefix.rstrip("."), concurrency=4,
                     commit_interval=0.2, metrics=Ready(), consumer={"session.timeout.ms": int(session)})
this.run()
