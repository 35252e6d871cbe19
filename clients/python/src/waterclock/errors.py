"""What can go wrong, as types.

    WaterclockError
      ApiError             the server refused, or did not answer; code, field and detail say what
        InvalidRequest     write it otherwise: a repeat cannot help
        NotFound           unknown, or it has ended: state says how
        AlreadyFired       too late
        Conflict           a condition does not hold
        TooLarge           over a limit
        Unauthenticated    no credential, or a bad one
        Forbidden          not for this caller
        QuotaExceeded      a limit of the tenant
        Unavailable        away, overloaded, or no answer came
        ServerError        a fault of the server, or an answer that is none of its API
      SignatureError       a webhook that we have not signed
      Unfinished           a worker ended before all was finished

The type follows from the code; for a code of a newer server, from the status.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class WaterclockError(Exception):
    """The base of all errors of this package."""


class SignatureError(WaterclockError):
    """A webhook that was not signed with one of the secrets, or too long ago.

    reason is bad_secret, missing_header, timestamp or no_match.
    """

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


class Unfinished(WaterclockError):
    """A worker ended before all that it had begun was finished. It is delivered again."""


class ApiError(WaterclockError):
    """The answer to a request that was refused (RFC 9457), or that there was none."""

    def __init__(self, status: int, code: str = "", detail: str = "", field: str = "",
                 problem: Mapping[str, Any] | None = None, retry_after: float = 0.0, request_id: str = "") -> None:
        self.status = status  #: of the answer; 0 if there was none, or if the client refused by itself
        self.code = code
        self.detail = detail
        self.field = field  #: the field at fault
        self.problem: Mapping[str, Any] = problem or {}
        self.retry_after = retry_after  #: seconds
        self.request_id = request_id  #: header X-Request-Id
        self.attempts = 0  #: how many requests were sent
        #: The write may have been applied: an answer was lost, or was 5xx or 408, in any of the attempts.
        self.maybe_applied = False
        at = f" ({field})" if field else ""
        super().__init__(f"{code or status}{at}: {detail}" if detail else f"{code or status}{at}")

    def _text(self, name: str) -> str:
        value = self.problem.get(name)
        return value if isinstance(value, str) else ""

    @property
    def trigger_id(self) -> str:
        """The trigger in question, where one was named or made."""
        return self._text("trigger_id")

    @property
    def state(self) -> str:
        """The trigger's state, where that is the reason."""
        return self._text("state")


class InvalidRequest(ApiError):
    """The request has to be written otherwise. A repeat cannot help."""


class NotFound(ApiError):
    """No such trigger, or it has ended; `state` says how."""


class AlreadyFired(ApiError):
    """Too late."""


class Conflict(ApiError):
    """A condition does not hold. With maybe_applied it may be this request's own effect: get the trigger and see."""


class TooLarge(ApiError):
    """Payload, headers or body are over a limit."""


class Unauthenticated(ApiError):
    """No credential, or a bad one."""


class Forbidden(ApiError):
    """The caller may not: role, channel or callback."""


class QuotaExceeded(ApiError):
    """A limit of the tenant; retry_after says when there is room."""


class Unavailable(ApiError):
    """Not accepted, or not known to be; status 0: no answer came."""


class ServerError(ApiError):
    """A fault of the server, or an answer that is none of its API."""


_BY_CODE: Mapping[str, type[ApiError]] = {
    "not_found": NotFound, "already_fired": AlreadyFired, "too_large": TooLarge, "unauthenticated": Unauthenticated,
    "conflict": Conflict, "idempotency_conflict": Conflict, "superseded": Conflict,
    "forbidden": Forbidden, "forbidden_url": Forbidden, "forbidden_channel": Forbidden,
    "quota_exceeded": QuotaExceeded, "internal": ServerError,
    "unavailable": Unavailable, "overloaded": Unavailable, "not_owner": Unavailable, "misrouted": Unavailable,
    **dict.fromkeys((
        "invalid", "invalid_key", "not_a_command", "ambiguous_tombstone", "unknown_field", "unknown_op", "unknown_zone",
        "unknown_channel", "invalid_rule", "disputed_rule", "period_too_short", "no_occurrences", "conflicting_time",
        "in_the_past", "beyond_horizon", "unsupported", "malformed", "method_not_allowed"), InvalidRequest),
}
_BY_STATUS: Mapping[int, type[ApiError]] = {
    0: Unavailable, 401: Unauthenticated, 403: Forbidden, 404: NotFound, 409: Conflict, 412: Conflict, 413: TooLarge,
    429: QuotaExceeded, 502: Unavailable, 503: Unavailable, 504: Unavailable,
}


def from_problem(status: int, problem: Mapping[str, Any], retry_after: float = 0.0, request_id: str = "") -> ApiError:
    """The error that a problem object stands for."""

    def text(name: str) -> str:
        value = problem.get(name)
        return value if isinstance(value, str) else ""

    code = text("code")
    kind = _BY_CODE.get(code) or _BY_STATUS.get(status) or (InvalidRequest if 400 <= status < 500 else ServerError)
    return kind(status, code, text("detail"), text("field"), problem, retry_after, request_id)


def invalid_key(detail: str) -> InvalidRequest:
    """What the client itself refuses as a key."""
    return InvalidRequest(0, "invalid_key", detail, "id")
