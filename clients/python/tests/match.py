"""The language of clients/conformance/README.md: placeholders and matching."""

from __future__ import annotations

import json
import re
from datetime import datetime
from typing import Any

PLACEHOLDER = re.compile(r"\{[a-z]+(:.*)?\}\Z", re.DOTALL)
ABSENT: Any = type("Absent", (), {"__repr__": lambda _: "absent"})()
RFC3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)\Z")
INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z\Z")


def fill(value: Any, names: dict[str, Any]) -> Any:
    """The value with {run}, {tenant} and {saved.X} replaced in all its strings."""
    if isinstance(value, str):
        if value.startswith("{saved.") and value.endswith("}") and value[1:-1] in names:
            return names[value[1:-1]]
        for name, text in names.items():
            value = value.replace("{" + name + "}", str(text))
        return value
    if isinstance(value, list):
        return [fill(v, names) for v in value]
    if isinstance(value, dict):
        return {fill(k, names): fill(v, names) for k, v in value.items()}
    return value


def instant(value: Any) -> datetime | None:
    """The instant of an RFC 3339 text."""
    if not isinstance(value, str) or not RFC3339.match(value):
        return None
    return datetime.fromisoformat(value)


def mismatch(want: Any, got: Any, at: str = "") -> str:
    """Why got does not match; "" if it does."""
    if isinstance(want, str) and PLACEHOLDER.match(want):
        name, _, arg = want[1:-1].partition(":")
        missing = got is ABSENT or got is None
        if name == "any":
            return f"{at} is missing" if missing else ""
        if name == "absent":
            return "" if missing else f"{at} is {got!r}, not absent"
        if name == "instant":
            return "" if isinstance(got, str) and INSTANT.match(got) else f"{at} is {got!r}, no instant"
        if name == "re":
            return "" if isinstance(got, str) and re.search(arg, got) else f"{at} is {got!r}, not {arg}"
        if name == "len":
            return "" if isinstance(got, list) and len(got) == int(arg) else f"{at} is {got!r}, not {arg} items"
        if name == "has":
            item = json.loads(arg)
            found = isinstance(got, list) and any(not mismatch(item, g) for g in got)
            return "" if found else f"{at} is {got!r}, without {arg}"
        if name == "not":
            return "" if isinstance(got, str) and got != arg else f"{at} is {got!r}"
        raise AssertionError(f"unknown placeholder {want}")
    if isinstance(want, dict):
        if not isinstance(got, dict):
            return f"{at} is {got!r}, no object"
        for key, value in want.items():
            wrong = mismatch(value, got.get(key, ABSENT), f"{at}.{key}")
            if wrong:
                return wrong
        return ""
    if isinstance(want, list):
        if not isinstance(got, list) or len(want) != len(got):
            return f"{at} is {got!r}, want {len(want)} items"
        for i, (w, g) in enumerate(zip(want, got, strict=True)):
            wrong = mismatch(w, g, f"{at}[{i}]")
            if wrong:
                return wrong
        return ""
    same = want == got and isinstance(want, bool) == isinstance(got, bool)
    same = same or (instant(want) is not None and instant(want) == instant(got))
    return "" if same else f"{at} is {got!r}, want {want!r}"
