"""Anthropic's messages, as a model that thinks, calls a tool and answers speaks them."""

import json

from anthropic.types import Message, RawMessageStreamEvent
from anthropic.types.message_create_params import MessageCreateParams

REQUEST, ANSWER, EVENT = MessageCreateParams, Message, RawMessageStreamEvent
MODEL = "model: claude-sonnet-4-5, max_tokens: 4000, ask_window: false, extra: {thinking: {type: enabled, budget_tokens: 1024}}"
BEYOND = set()


def thought(number):
    return {"type": "thinking", "thinking": f"thought {number}", "signature": f"c2ln{number}"}


def call(number, name="echo", arguments=None):
    return {"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": arguments or {"text": f"hello {number}"}}


def text(said):
    return {"type": "text", "text": said}


def content(number, reports):
    if number == 1:
        return [thought(1), text("Let me try."), call(1), call(2)]
    if number == 2:
        return [{"type": "redacted_thinking", "data": "c2VhbGVk"}, call(3)]
    return [thought(3), call(4, "final_report", {"said": "hello"})] if reports else [thought(3), text("Hello.")]


def message(number, blocks, end):
    usage = {"input_tokens": 5, "output_tokens": 5}
    return {
        "id": f"msg_{number}", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5", "content": blocks,
        "stop_reason": end, "stop_sequence": None, "usage": usage,
    }


def end(blocks):
    return "tool_use" if any(block["type"] == "tool_use" for block in blocks) else "end_turn"


def whole(number, reports):
    blocks = content(number, reports)
    return message(number, blocks, end(blocks))


def parts(block):
    """A block as it begins, and what is added to it."""
    if block["type"] == "thinking":
        return {**block, "thinking": "", "signature": ""}, [
            {"type": "thinking_delta", "thinking": block["thinking"]}, {"type": "signature_delta", "signature": block["signature"]},
        ]
    if block["type"] == "text":
        return text(""), [{"type": "text_delta", "text": piece} for piece in (block["text"][:4], block["text"][4:])]
    if block["type"] == "tool_use":
        given = json.dumps(block["input"])
        return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": piece} for piece in ("", given[:5], given[5:])]
    return block, []


def stream(number, reports):
    blocks = content(number, reports)
    yield {"type": "message_start", "message": message(number, [], None)}
    for index, block in enumerate(blocks):
        begun, added = parts(block)
        yield {"type": "content_block_start", "index": index, "content_block": begun}
        for delta in added:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    yield {"type": "message_delta", "delta": {"stop_reason": end(blocks), "stop_sequence": None}, "usage": {"output_tokens": 5}}
    yield {"type": "message_stop"}


def framed(event):
    return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n"


END = ""


def plain(block):
    return {field: value for field, value in block.items() if field != "cache_control"}


def sent_back(request):
    """What of the replies is in the last request, and what has to be there."""
    replies = [[plain(block) for block in message["content"]] for message in request["messages"] if message["role"] == "assistant"]
    results = [
        block["tool_use_id"] for message in request["messages"] if isinstance(message["content"], list)
        for block in message["content"] if block["type"] == "tool_result"
    ]
    return (replies, results), ([content(1, False), content(2, False)], ["toolu_1", "toolu_2", "toolu_3"])


def block(body, kind):
    return next(block for message in body["messages"] if isinstance(message["content"], list) for block in message["content"] if block["type"] == kind)


BREAKS = [
    lambda body: body.pop("max_tokens"),
    lambda body: block(body, "tool_use").pop("id"),
    lambda body: block(body, "tool_result").update(content=7),
    lambda body: block(body, "thinking").pop("signature"),
    lambda body: block(body, "image")["source"].update(media_type="image/bmp"),
    lambda body: block(body, "tool_use").update(thought="x"),
    lambda body: body.update(tool_config={}),
]
