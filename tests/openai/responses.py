"""OpenAI's Responses, as a model that reasons, calls a tool and answers speaks them."""

import json

from openai.types.responses import Response, ResponseStreamEvent
from openai.types.responses.response_create_params import ResponseCreateParams

REQUEST, ANSWER, EVENT = ResponseCreateParams, Response, ResponseStreamEvent
MODEL = "model: gpt-5, max_tokens: 500, ask_window: false, extra: {reasoning: {effort: low}}"
BEYOND = set()


def reasoning(number):
    return {"type": "reasoning", "id": f"rs_{number}", "summary": [], "encrypted_content": "c2VhbGVk"}


def message(number, phase, text):
    part = {"type": "output_text", "text": text, "annotations": []}
    return {"type": "message", "id": f"msg_{number}", "role": "assistant", "status": "completed", "phase": phase, "content": [part]}


def call(number, name="echo", arguments=None):
    arguments = json.dumps(arguments or {"text": f"hello {number}"})
    return {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}", "name": name, "arguments": arguments, "status": "completed"}


def output(number, reports):
    if number == 1:
        return [reasoning(1), message(1, "commentary", "Let me try."), call(1), call(2)]
    if number == 2:
        return [call(3)]
    return [call(4, "final_report", {"said": "hello"})] if reports else [reasoning(2), message(2, "final_answer", "Hello.")]


def response(number, output, status="completed"):
    usage = {
        "input_tokens": 5, "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": 5, "output_tokens_details": {"reasoning_tokens": 2}, "total_tokens": 10,
    }
    return {
        "id": f"resp_{number}", "object": "response", "created_at": 0, "model": "gpt-5", "status": status,
        "output": output, "parallel_tool_calls": True, "tool_choice": "auto", "tools": [],
        "usage": usage if output else None,
    }


def whole(number, reports):
    return response(number, output(number, reports))


def events(number, reports):
    said = output(number, reports)
    yield {"type": "response.created", "response": response(number, [], "in_progress")}
    for at, item in enumerate(said):
        place = {"output_index": at, "item_id": item["id"]}
        begun = {**item, "status": "in_progress"}
        if item["type"] == "message":
            text = item["content"][0]["text"]
            place["content_index"] = 0
            yield {"type": "response.output_item.added", "output_index": at, "item": {**begun, "content": []}}
            for piece in (text[:4], text[4:]):
                yield {"type": "response.output_text.delta", **place, "delta": piece, "logprobs": []}
            yield {"type": "response.output_text.done", **place, "text": text, "logprobs": []}
        elif item["type"] == "function_call":
            yield {"type": "response.output_item.added", "output_index": at, "item": {**begun, "arguments": ""}}
            yield {"type": "response.function_call_arguments.delta", **place, "delta": item["arguments"]}
            yield {"type": "response.function_call_arguments.done", **place, "arguments": item["arguments"], "name": item["name"]}
        else:
            yield {"type": "response.output_item.added", "output_index": at, "item": begun}
        yield {"type": "response.output_item.done", "output_index": at, "item": item}
    yield {"type": "response.completed", "response": response(number, said)}


def stream(number, reports):
    return [{**event, "sequence_number": at} for at, event in enumerate(events(number, reports))]


def framed(event):
    return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n"


END = ""


def sent_back(request):
    """What of the replies is in the last request, and what has to be there."""
    items = [item.get("id") for item in request["input"][2:5]]
    results = [item["call_id"] for item in request["input"] if item.get("type") == "function_call_output"]
    return (items, results), (["rs_1", "msg_1", "fc_1"], ["call_1", "call_2", "call_3"])


BREAKS = [
    lambda body: body["tools"][0].pop("strict"),
    lambda body: next(item for item in body["input"] if item.get("type") == "function_call_output").update(output=7),
    lambda body: body.update(store="no"),
    lambda body: body["input"][2].pop("summary"),
    lambda body: body["input"][2].update(thought="x"),
    lambda body: body.update(max_tokens=5),
]
