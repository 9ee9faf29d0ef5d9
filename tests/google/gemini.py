"""Gemini's contents, as a model that thinks, calls tools and answers speaks them, and the types of Google's SDK.

The types refuse fields that they do not have, and are read as JSON, without conversions. Names and values have to be spelled as the types
write them. Of a value that an enumeration does not have they only warn, which is an error here. Free are, in the types themselves, `args`, `response` and
`parametersJsonSchema`.
"""

import json
import warnings

from google.genai import types
from pydantic import ValidationError

warnings.filterwarnings("error", "[^ ]* is not a valid ", UserWarning)
MODEL = "gemini-3-pro"
FIELDS = {
    "contents": (types.Content, True),
    "systemInstruction": (types.Content, False),
    "tools": (types.Tool, True),
    "toolConfig": (types.ToolConfig, False),
    "generationConfig": (types.GenerationConfig, False),
}


def call(number, signature=None, name="echo", args=None, **more):
    part = {"functionCall": {"name": name, "args": args or {"text": f"hello {number}"}, **more}}
    return {**part, "thoughtSignature": signature} if signature else part


ANSWERS = [
    [{"text": "hm", "thought": True}, {"text": "Let me try."}, call(1, "c2lnMQ=="), call(2)],
    [call(3, "c2lnMg==", id="own")],
    [{"text": "Hello.", "thoughtSignature": "c2lnMw=="}],
]


def body(parts, end):
    candidate = {"content": {"role": "model", "parts": parts}, "index": 0}
    whole = {"candidates": [candidate], "modelVersion": MODEL, "responseId": "r"}
    if end:
        candidate["finishReason"] = "STOP"
        whole["usageMetadata"] = {"promptTokenCount": 5, "candidatesTokenCount": 3, "thoughtsTokenCount": 2, "totalTokenCount": 10}
    types.GenerateContentResponse.model_validate(whole)
    return whole


REPORT = [call(4, "c2lnMw==", "final_report", {"said": "hello"})]


def answer(number, streamed, reports=False):
    """The kind and the bytes of an answer that holds against the types itself; `reports`: the last one is a call of the report's tool."""
    parts = REPORT if reports and number >= len(ANSWERS) else ANSWERS[min(number, len(ANSWERS)) - 1]
    if not streamed:
        return "application/json", json.dumps(body(parts, True)).encode()
    chunks = [body([part], at + 1 == len(parts)) for at, part in enumerate(parts)]
    return "text/event-stream", "".join(f"data: {json.dumps(chunk)}\r\n\r\n" for chunk in chunks).encode()


def plain(value):
    """A value whose bytes are written in one of the two alphabets of base64."""
    if isinstance(value, dict):
        return {name: plain(member) for name, member in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value.translate(str.maketrans("-_", "+/")) if isinstance(value, str) else value


def wrong(judge, value):
    """What is wrong with a value."""
    try:
        known = judge.model_validate_json(json.dumps(value), strict=True, by_alias=True, by_name=False)
    except ValidationError as error:
        return [f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()[:9]]
    except UserWarning as warning:
        return [str(warning)]
    again = json.loads(known.model_dump_json(by_alias=True, exclude_unset=True))
    return [] if plain(again) == plain(value) else [f"it is spelled {json.dumps(again)[:900]}"]


def problems(request):
    """What is wrong with a request."""
    found = [f"unknown field {field}" for field in request if field not in FIELDS]
    # The role is any text in the types. A client may leave it out where it alone speaks.
    roles = [content.get("role", "user") for content in request["contents"]]
    found += [f"unknown role {role}" for role in roles if role not in ("user", "model")]
    for field, (judge, several) in FIELDS.items():
        values = request.get(field, [] if several else None)
        for value in values if several else [values] * (values is not None):
            found += [f"{field}.{why}" for why in wrong(judge, value)]
    return found
