"""What schemathesis cannot know of the API: how a batch is spelled."""
import json

import schemathesis
from hypothesis import strategies as st

LINES = {"/v1/triggers", "/v1/triggers:batch"}


@schemathesis.serializer("application/x-ndjson")
def ndjson(ctx, value):
    if isinstance(value, (bytes, str)):
        return value
    lines = value if isinstance(value, list) else [value]
    return "\n".join(json.dumps(line) for line in lines)


LINE = st.one_of(
    st.fixed_dictionaries(
        {"delay": st.sampled_from(["1h", "7m", 0, 60, "P1D", -1, "soon"])},
        optional={"id": st.sampled_from(["a", "b", "c", "", "x/y"]), "payload": st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(), lambda v: st.lists(v) | st.dictionaries(st.text(), v), max_leaves=8),
            "idempotency_key": st.text(max_size=4), "if_revision": st.integers(-1, 3)},
    ),
    st.fixed_dictionaries({"op": st.sampled_from(["cancel", "pause", "resume", "run_now", "skip", "erase", "fly", 1]), "id": st.sampled_from(["a", "b", "nobody", None])}),
    st.dictionaries(st.text(), st.text()),
    st.text(),
)


@schemathesis.hook
def before_generate_body(ctx, strategy):
    if ctx.operation.path == "/v1/triggers:batch":
        return st.lists(LINE, max_size=20).map(lambda lines: "\n".join(x if isinstance(x, str) else json.dumps(x) for x in lines))
    return strategy


@schemathesis.hook
def before_generate_path_parameters(ctx, strategy):
    known = st.fixed_dictionaries({p.name: st.sampled_from(["a", "b", "c", "command.schema.json"]) for p in ctx.operation.path_parameters})
    return st.one_of(known, strategy)


@schemathesis.hook
def map_headers(ctx, headers):
    if headers and "If-Match" in headers and ctx.operation.method != "get":
        headers["If-Match"] = ["*", '"1"', '"1", "2"', headers["If-Match"]][len(headers["If-Match"]) % 4]
    return headers
