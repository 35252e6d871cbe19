"""Verify and read the requests of Waterclock's webhook worker (Standard Webhooks)."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import unquote

from .errors import SignatureError

#: How old, or how far ahead, a timestamp may be; seconds.
TOLERANCE = 300.0


class Headers(Protocol):
    """Headers of a request, as any framework has them: names in any case."""

    def items(self) -> Iterable[tuple[str, str]]: ...


@dataclass(frozen=True)
class Webhook:
    """One verified request. Deduplicate by `id`: it is the same for every attempt.

    With callback.body raw, trigger_id is that of a header, which is not signed; and so is attempt always.
    """

    id: str
    trigger_id: str
    attempt: int
    payload: Any  # JSON; bytes where it is not; of callback.body raw, the body as bytes


def verify(secrets: str | Iterable[str], headers: Headers, body: bytes, *, tolerance: float = TOLERANCE,
           now: float | None = None) -> str:
    """The webhook-id of a request that one of the secrets has signed; else SignatureError.

    Give two secrets (or one text with a comma) while one is rotated. body is the bytes as they came: JSON that was
    read and written anew has another signature.
    """
    known = keys(secrets)
    found = {name.lower(): value for name, value in headers.items()}
    id, stamp, signatures = (found.get("webhook-" + name, "") for name in ("id", "timestamp", "signature"))
    if not id or not stamp or not signatures:
        raise SignatureError("missing_header", "webhook-id, webhook-timestamp or webhook-signature is missing")
    if not (stamp.isascii() and stamp.isdigit() and len(stamp) <= 18):
        raise SignatureError("timestamp", "webhook-timestamp is no number of seconds")
    age = (time.time() if now is None else now) - int(stamp)
    if abs(age) > tolerance:
        raise SignatureError("timestamp", f"webhook-timestamp is {abs(age):.0f} s {'ago' if age > 0 else 'ahead'}; "
                             f"at most {tolerance:.0f} s are allowed")
    signed = id.encode() + b"." + stamp.encode() + b"." + body
    given = [part[3:] for part in signatures.split(" ") if part.startswith("v1,")]
    valid = False
    for key in known:
        want = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
        for one in given:
            valid |= hmac.compare_digest(one.encode(), want.encode())  # no early end: time tells nothing
    if not valid:
        raise SignatureError("no_match", "no signature fits")
    return id


def keys(secrets: str | Iterable[str]) -> list[bytes]:
    """The keys of whsec_ secrets."""
    given = [secrets] if isinstance(secrets, str) else secrets
    texts = [text for one in given for text in one.split(",")]
    found = []
    for text in texts:
        try:
            key = base64.b64decode(text.strip().removeprefix("whsec_"), validate=True)
        except (binascii.Error, ValueError):
            key = b""
        if not key:
            raise SignatureError("bad_secret", "a secret is whsec_ and base64")
        found.append(key)
    if not found:
        raise SignatureError("bad_secret", "no secret was given")
    return found


def receive(secrets: str | Iterable[str], headers: Headers, body: bytes, *, tolerance: float = TOLERANCE,
            now: float | None = None) -> Webhook:
    """Verify a request and read it."""
    id = verify(secrets, headers, body, tolerance=tolerance, now=now)
    found = {name.lower(): value for name, value in headers.items()}
    attempt = found.get("x-trigger-attempt", "1")
    number = int(attempt) if attempt.isascii() and attempt.isdigit() else 1
    named = unquote(found.get("x-trigger-id", ""))
    envelope = _envelope(named, body)
    return Webhook(id, named, number, body) if envelope is None else Webhook(id, envelope[0], number, envelope[1])


def _envelope(named: str, body: bytes) -> tuple[str, Any] | None:
    """The trigger's id and the payload; None if the body is the payload itself (callback.body raw).

    Such a payload may have a member triggerId of its own, so the id has to be that of the header.
    """
    try:
        envelope = json.loads(body)
        if not isinstance(envelope, dict):
            return None
        id = envelope.get("triggerId")
        if not isinstance(id, str) or id != named and named:
            return None
        if isinstance(envelope.get("payload_base64"), str):
            return id, base64.b64decode(envelope["payload_base64"], validate=True)
        return (id, envelope["payload"]) if "payload" in envelope else None
    except (ValueError, RecursionError):  # no JSON, none that can be read, or no base64
        return None
