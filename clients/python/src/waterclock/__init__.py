"""Client and channel worker for Waterclock, a durable scheduler on Kafka.

    Client, AsyncClient    the HTTP API
    KafkaClient            the same commands over Kafka
    worker                 reads due events, calls a handler, writes receipts
    webhook                verifies and reads the requests of callbacks
    errors                 what can go wrong
"""

from . import errors, webhook, worker
from .client import AsyncClient, BatchResult, Client, Retry
from .errors import (
    AlreadyFired, ApiError, Conflict, Forbidden, InvalidRequest, NotFound, QuotaExceeded, ServerError, SignatureError,
    TooLarge, Unauthenticated, Unavailable, Unfinished, WaterclockError,
)
from .kafka import Command, KafkaClient, NotWritten, Written
from .model import (
    Answer, DeadLetter, Event, Occurrence, Page, RedriveProgress, RegisterFields, TimeFields, Trigger,
)
from .worker import Worker

__all__ = [
    "AlreadyFired", "Answer", "ApiError", "AsyncClient", "BatchResult", "Client", "Command", "Conflict", "DeadLetter",
    "Event", "Forbidden", "InvalidRequest", "KafkaClient", "NotFound", "NotWritten", "Occurrence", "Page",
    "QuotaExceeded", "RedriveProgress", "RegisterFields", "Retry", "ServerError", "SignatureError", "TimeFields",
    "TooLarge", "Trigger", "Unauthenticated", "Unavailable", "Unfinished", "WaterclockError", "Worker", "Written",
    "errors", "webhook", "worker",
]
