"""OpenAI's chat completions, as a model that calls a tool and answers speaks them."""

import json

from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.chat.completion_create_params import CompletionCreateParams

REQUEST, ANSWER, EVENT = CompletionCreateParams, ChatCompletion, ChatCompletionChunk
MODEL = "model: gpt-4o, max_tokens: 500, ask_window: false"
# What compatible servers think is no field of OpenAI's own, and goes back to them as they demand.
BEYOND = {"reasoning_content"}
THOUGHT = "First the lamp."


def call(number, name="echo", arguments=None):
    arguments = json.dumps(arguments or {"text": f"hello {number}"})
    return {"id": f"call_{number}", "type": "function", "function": {"name": name, "arguments": arguments}}


def message(number, reports):
    said = {"role": "assistant", "content": None, "refusal": None}
    if number == 1:
        return {**said, "content": "Let me try.", "reasoning_content": THOUGHT, "tool_calls": [call(1), call(2)]}
    if number == 2:
        return {**said, "tool_calls": [call(3)]}
    return {**said, "tool_calls": [call(4, "final_report", {"said": "hello"})]} if reports else {**said, "content": "Hello."}


def body(number, kind, choices, **more):
    return {"id": f"chatcmpl-{number}", "object": kind, "created": 0, "model": "gpt-4o", "choices": choices, **more}


USAGE = {"prompt_tokens": 5, "completion_tokens": 5, "total_tokens": 10}


def whole(number, reports):
    said = message(number, reports)
    end = "tool_calls" if "tool_calls" in said else "stop"
    return body(number, "chat.completion", [{"index": 0, "message": said, "finish_reason": end, "logprobs": None}], usage=USAGE)


def deltas(said):
    yield {"role": "assistant", "content": ""}
    if "reasoning_content" in said:
        yield {"reasoning_content": said["reasoning_content"]}
    text = said["content"] or ""
    for piece in (text[:4], text[4:]):
        yield {"content": piece}
    for at, made in enumerate(said.get("tool_calls", [])):
        arguments = made["function"]["arguments"]
        yield {"tool_calls": [{"index": at, **made, "function": {"name": made["function"]["name"], "arguments": ""}}]}
        for piece in (arguments[:3], arguments[3:]):
            yield {"tool_calls": [{"index": at, "function": {"arguments": piece}}]}


def stream(number, reports):
    said = message(number, reports)
    for delta in deltas(said):
        yield body(number, "chat.completion.chunk", [{"index": 0, "delta": delta, "finish_reason": None}])
    end = "tool_calls" if "tool_calls" in said else "stop"
    yield body(number, "chat.completion.chunk", [{"index": 0, "delta": {}, "finish_reason": end}])
    yield body(number, "chat.completion.chunk", [], usage=USAGE)


def framed(event):
    return f"data: {json.dumps(event)}\n\n"


END = "data: [DONE]\n\n"


def sent_back(request):
    """What of the replies is in the last request, and what has to be there."""
    replies = [message.get("tool_calls") for message in request["messages"] if message["role"] == "assistant"]
    results = [message["tool_call_id"] for message in request["messages"] if message["role"] == "tool"]
    return (replies, results), ([[call(1), call(2)], [call(3)]], ["call_1", "call_2", "call_3"])


BREAKS = [
    lambda body: body["messages"][1].update(role="human"),
    lambda body: next(m for m in body["messages"] if m["role"] == "tool").pop("tool_call_id"),
    lambda body: next(m for m in body["messages"] if m.get("tool_calls"))["tool_calls"][0]["function"].update(arguments={}),
    lambda body: next(p for m in body["messages"] if isinstance(m["content"], list) for p in m["content"] if p["type"] == "image_url").update(image_url="x"),
    lambda body: next(m for m in body["messages"] if m.get("tool_calls")).update(thought="x"),
    lambda body: body.update(max_output_tokens=5),
]
