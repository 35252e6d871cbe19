"""A channel worker: reads the due events of a channel, calls a handler for each, says what became of it.

    from waterclock import worker

    def handle(event: worker.DueEvent) -> worker.Result:
        print(event.id, event.payload)
        return worker.Delivered()

    worker.run("print", handle, brokers="127.0.0.1:9092")

What it promises, and its options: docs/api/python.md.

    event.py     headers of a record to a DueEvent
    result.py    what a handler returns, and its receipt
    state.py     memory, partitions, clock: no I/O, no locks
    queue.py     which event is next: keys, lanes, bulkheads
    metrics.py   numbers; prometheus.py for prometheus_client
    trace.py     spans of attempts
    receipts.py  writes receipts until they stand; reads them into the memory
    run.py       the consumer, the handlers, rebalances, the end
"""

from .event import DueEvent, Garbled, decode, example
from .metrics import Load, Metrics
from .queue import Bulkhead
from .result import Accepted, Delivered, Fail, Outcome, Postpone, Result, Retry, Suppress
from .run import Handler, Hook, Worker, call, run
from .trace import Tracer

__all__ = [
    "Accepted", "Bulkhead", "Delivered", "DueEvent", "Fail", "Garbled", "Handler", "Hook", "Load", "Metrics", "Outcome",
    "Postpone", "Result", "Retry", "Suppress", "Tracer", "Worker", "call", "decode", "example", "run",
]
