"""What the worker costs: a handler that does nothing, with receipts.

    bench.py BROKERS [EVENTS]

writes due events to a topic of its own, and times a worker from its start to the last acknowledged receipt. The figure to
quote is events for each second of this process's CPU: wall time depends on who else uses the machine.
"""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined,unused-ignore]
from waterclock import worker

PARTITIONS = 4


def fill(brokers: str, prefix: str, events: int) -> None:
    topics: list[Any] = [NewTopic(prefix + name, PARTITIONS, 1) for name in ("due.bench", "receipts")]
    admin = AdminClient({"bootstrap.servers": brokers})
    for future in admin.create_topics(topics).values():
        future.result(30)
    producer = Producer({"bootstrap.servers": brokers, "linger.ms": 20, "queue.buffering.max.messages": 10_000_000})
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime())
    for i in range(events):
        key = f"tenant/trigger-{i}"
        producer.produce(prefix + "due.bench", partition=i % PARTITIONS, key=key, value=b'{"title":"Take pills"}', headers=[
            ("ce_specversion", "1.0"), ("ce_id", f"{key}@{stamp}#0"), ("ce_source", "/waterclock/bench"),
            ("ce_type", "waterclock.due.v1"), ("ce_subject", key), ("ce_time", stamp), ("ce_wcfired", stamp),
            ("ce_wcrevision", "1"), ("ce_wcattempt", "1"), ("ce_wcstep", "0"), ("ce_wcbasis", "1.1.1.1.1")])
        if i % 1000 == 0:
            producer.poll(0)
    producer.flush()


def main() -> None:
    brokers, events = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 100_000
    prefix = f"bench{int(time.time())}."
    fill(brokers, prefix, events)
    w = worker.Worker("bench", lambda _: worker.Delivered(), brokers=brokers, prefix=prefix, group=prefix + "engine")
    wall, cpu = time.monotonic(), time.process_time()
    thread = threading.Thread(target=w.run)
    thread.start()
    while True:
        s = w.stats()
        if s.get("delivered", 0) >= events and s["pending"] == 0:
            break
        time.sleep(0.05)
    wall, cpu = time.monotonic() - wall, time.process_time() - cpu
    w.stop()
    thread.join()
    print(f"{events} events: {wall:.1f} s, {events / wall:,.0f}/s; {cpu:.1f} s of CPU, {events / cpu:,.0f} a second of CPU")


main()
