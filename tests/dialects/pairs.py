"""The ids of the calls in a request, and those of their results, in the order in which they stand there."""


def parts(messages, field="content"):
    """The parts of all messages, where these are lists."""
    return [part for message in messages if isinstance(message.get(field), list) for part in message[field]]


def of_chat(body):
    called = [call.get("id") for message in body["messages"] for call in message.get("tool_calls", [])]
    return [called, [message.get("tool_call_id") for message in body["messages"] if message["role"] == "tool"]]


def of_responses(body):
    return [[item.get("call_id") for item in body["input"] if item.get("type") == kind] for kind in ("function_call", "function_call_output")]


def of_messages(body):
    kinds = (("tool_use", "id"), ("tool_result", "tool_use_id"))
    return [[part.get(name) for part in parts(body["messages"]) if part["type"] == kind] for kind, name in kinds]


def of_gemini(body):
    both = [[part[kind] for part in parts(body["contents"], "parts") if kind in part] for kind in ("functionCall", "functionResponse")]
    return [[(one["name"], one.get("id")) for one in ones] for ones in both]


def of_converse(body):
    return [[part[kind].get("toolUseId") for part in parts(body["messages"]) if kind in part] for kind in ("toolUse", "toolResult")]
