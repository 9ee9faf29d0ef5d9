"""Bedrock's Converse, as a model that thinks, calls tools and answers speaks it, and botocore's service model.

botocore refuses fields that a shape does not have, but looks neither at enumerations nor at patterns, nor at what is longer than it may
be: that is added here. Documents are free in the model itself: a schema, the input of a call, further fields for the model.
"""

import base64
import binascii
import json
import re
import struct

import botocore.loaders
import botocore.model
import botocore.validate
from botocore.eventstream import EventStreamBuffer

MODEL = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
SERVICE = botocore.model.ServiceModel(botocore.loaders.Loader().load_service_model("bedrock-runtime", "service-2"))
USAGE = {"inputTokens": 5, "outputTokens": 3, "totalTokens": 8}


def thought(text, signature):
    return {"reasoningContent": {"reasoningText": {"text": text, "signature": signature}}}


def call(number, text=None, name="echo", given=None):
    return {"toolUse": {"toolUseId": f"tooluse_{number}", "name": name, "input": given or {"text": text}}}


ANSWERS = [
    ([thought("hm", "c2lnMQ=="), {"text": "Let me try."}, call(1, "hello 1"), call(2, "hello 2")], "tool_use"),
    ([{"reasoningContent": {"redactedContent": base64.b64encode(b"sealed").decode()}}, call(3, "hello 3")], "tool_use"),
    ([{"text": "Hello."}], "end_turn"),
]
REPORT = [call(4, name="final_report", given={"said": "hello"})], "tool_use"


def frame(headers, payload):
    """A frame by the specification of Amazon's event streams; botocore's own reader holds it against that."""
    data = b"".join(
        struct.pack("!B", len(name)) + name.encode() + b"\x07" + struct.pack("!H", len(value)) + value.encode()
        for name, value in headers.items()
    )
    payload = json.dumps(payload).encode()
    prelude = struct.pack("!II", len(data) + len(payload) + 16, len(data))
    prelude += struct.pack("!I", binascii.crc32(prelude))
    message = prelude + data + payload
    message += struct.pack("!I", binascii.crc32(message))
    buffer = EventStreamBuffer()
    buffer.add_data(message)
    next(iter(buffer))
    return message


def event(kind, payload):
    return frame({":message-type": "event", ":event-type": kind, ":content-type": "application/json"}, {**payload, "p": "abc"})


def events(blocks, stop):
    yield event("messageStart", {"role": "assistant"})
    for index, block in enumerate(blocks):
        at = {"contentBlockIndex": index}
        if "toolUse" in block:
            use = block["toolUse"]
            yield event("contentBlockStart", {**at, "start": {"toolUse": {"toolUseId": use["toolUseId"], "name": use["name"]}}})
            text = json.dumps(use["input"])
            deltas = [{"toolUse": {"input": text[:5]}}, {"toolUse": {"input": text[5:]}}]
        elif "text" in block:
            deltas = [{"text": block["text"][:3]}, {"text": block["text"][3:]}]
        elif "reasoningText" in block["reasoningContent"]:
            deltas = [{"reasoningContent": {field: value}} for field, value in block["reasoningContent"]["reasoningText"].items()]
        else:
            deltas = [block]
        for delta in deltas:
            yield event("contentBlockDelta", {**at, "delta": delta})
        yield event("contentBlockStop", at)
    yield event("messageStop", {"stopReason": stop})
    yield event("metadata", {"usage": USAGE, "metrics": {"latencyMs": 1}})


def answer(number, streamed, reports=False):
    """The kind and the bytes of an answer; `reports`: the last one is a call of the report's tool."""
    blocks, stop = REPORT if reports and number >= len(ANSWERS) else ANSWERS[min(number, len(ANSWERS)) - 1]
    if streamed:
        return "application/vnd.amazon.eventstream", b"".join(events(blocks, stop))
    body = {"output": {"message": {"role": "assistant", "content": blocks}}, "stopReason": stop, "usage": USAGE, "metrics": {"latencyMs": 1}}
    return "application/json", json.dumps(body).encode()


def values(value, shape, at=""):
    """The values of a request that are no structures, each with its shape and where it is."""
    if shape.type_name == "structure" and isinstance(value, dict) and not shape.is_document_type:
        for name, member in value.items():
            if name in shape.members:
                yield from values(member, shape.members[name], f"{at}.{name}")
    elif shape.type_name == "list" and isinstance(value, list):
        yield value, shape, at
        for index, item in enumerate(value):
            yield from values(item, shape.member, f"{at}.{index}")
    else:
        yield value, shape, at


def refused(value, shape):
    """What botocore lets through and the service does not."""
    if shape.type_name == "blob":
        try:
            return None if base64.b64decode(value, validate=True) else "is empty"
        except ValueError:
            return "is no base64"
    if shape.type_name not in ("string", "list"):
        return None
    most, pattern = shape.metadata.get("max"), shape.metadata.get("pattern")
    if shape.type_name == "string" and shape.enum and value not in shape.enum:
        return f"is not in {shape.enum}"
    if most is not None and len(value) > most:
        return f"is longer than {most}"
    return f"is not like {pattern}" if pattern and not re.fullmatch(pattern, value) else None


def operation(path):
    return SERVICE.operation_model("ConverseStream" if path.endswith("-stream") else "Converse")


def problems(path, body, model=MODEL):
    """What is wrong with a request. Its tools have to be declared wherever the conversation has calls or results."""
    whole, shape = {"modelId": model, **body}, operation(path).input_shape
    report = botocore.validate.ParamValidator().validate(whole, shape)
    if report.has_errors():
        return report.generate_report().splitlines()
    found = [f"{at} {why}" for value, shape, at in values(whole, shape) if (why := refused(value, shape))]
    blocks = [block for message in body["messages"] for block in message["content"]]
    if "toolConfig" not in body and any("toolUse" in block or "toolResult" in block for block in blocks):
        found.append("toolConfig is missing, and there are calls or results")
    return found


def native(value, shape):
    """A request as botocore's clients want it: what is sent as base64 as the bytes themselves."""
    if shape.type_name == "blob":
        return base64.b64decode(value)
    if shape.type_name == "structure" and not shape.is_document_type:
        return {name: native(member, shape.members[name]) for name, member in value.items()}
    return [native(item, shape.member) for item in value] if shape.type_name == "list" else value
