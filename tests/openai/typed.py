"""Requests held against the types of an SDK: OpenAI's and Anthropic's are dictionaries whose fields have types.

Such a type says nothing of fields that it does not have: validation leaves them out. So whatever is not there afterwards is an unknown
field, and an error. Two kinds of values are free in the types themselves: schemas of tools, and the input of a call in Anthropic's.
"""

import functools
import json
from collections.abc import Iterator

from pydantic import TypeAdapter, ValidationError


@functools.cache
def adapter(judge):
    """It is kept as long as what it validated may be read."""
    return TypeAdapter(judge)


def read(value):
    """A validated value as plain JSON. Iterables are validated when they are read."""
    if isinstance(value, dict):
        return {field: read(member) for field, member in value.items()}
    if isinstance(value, (list, tuple, Iterator)) or type(value).__name__ == "ValidatorIterator":
        return [read(item) for item in value]
    return value


def unknown(sent, known, beyond, at=""):
    """The fields that the types do not have: they are left out of what was validated."""
    if isinstance(sent, dict) and isinstance(known, dict):
        for field, value in sent.items():
            if field in known:
                yield from unknown(value, known[field], beyond, f"{at}.{field}")
            elif field not in beyond or isinstance(value, (dict, list)):
                yield f"{at}.{field}: no such field"
    elif isinstance(sent, list) and isinstance(known, list):
        for index, (one, other) in enumerate(zip(sent, known, strict=True)):
            yield from unknown(one, other, beyond, f"{at}.{index}")


def wrong(judge, value, beyond):
    """What is wrong with a value; `beyond`: fields that are sent on purpose and are not in the types."""
    try:
        known = read(adapter(judge).validate_python(value, strict=True))
    except ValidationError as error:
        return [f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()[:20]]
    return list(unknown(value, known, beyond))


def problems(dialect, request, beyond=None):
    """What is wrong with a request."""
    return wrong(dialect.REQUEST, request, dialect.BEYOND if beyond is None else beyond)


def answer(dialect, number, reports, streamed):
    """The kind and the bytes of an answer that holds against the types itself."""
    if not streamed:
        whole = dialect.whole(number, reports)
        dialect.ANSWER.model_validate(whole)
        return "application/json", json.dumps(whole).encode()
    data = ""
    for event in dialect.stream(number, reports):
        adapter(dialect.EVENT).validate_python(event)
        data += dialect.framed(event)
    return "text/event-stream", (data + dialect.END).encode()
