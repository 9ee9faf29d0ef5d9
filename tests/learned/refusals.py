"""What models refuse, in the words of their providers, and how a request is recognized that has it."""

import json
from dataclasses import dataclass
from typing import Callable

PHOTO = "iVBORw0KGgpwaG90bw=="


@dataclass
class Refusal:
    # What is refused.
    name: str
    # Whether a request has it.
    sends: Callable
    says: str
    param: str | None = None
    code: str | None = None


def unsupported(name, more=""):
    says = f"Unsupported parameter: '{name}' is not supported with this model.{more}"
    return Refusal(name, lambda body: within(body, name), says, name, "unsupported_parameter")


def within(body, path):
    for name in path.split("."):
        body = body.get(name) if isinstance(body, dict) else None
    return body is not None


def turns(body):
    return body.get("messages", body.get("input", []))


def roles(body):
    return [message.get("role") for message in turns(body)]


def calls(body):
    return [call for message in turns(body) for call in message.get("tool_calls", [])]


def of_role(body):
    return within(body, "system") or within(body, "systemInstruction") or any(message.get("role") == "system" for message in turns(body))


def holds(text):
    return lambda body: text in json.dumps(body)


def image(says="This model does not support image input."):
    return Refusal("images", holds(PHOTO), says)


def role(says="System role not supported"):
    return Refusal("the role of instructions", of_role, says)


FORCED = "tool_choice forces tool use is not compatible with this model."
BOUND = "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different conversation."
BEHIND = "The model returned the following errors: "
NINE = "Tool call id was call_1 but must be a-z, A-Z, 0-9, with a length of 9."
NOTHING_BACK = "'messages.1' : for 'role:assistant' the following must be satisfied[('messages.1' : property 'reasoning_content' is unsupported)]"
BOTH = "`temperature` and `top_p` cannot both be specified for this model. Please use only one."
NO_CHOICE = "This model doesn't support the toolConfig.toolChoice.tool field. Remove toolConfig.toolChoice.tool and try again."

DEMAND = Refusal("a demand", lambda body: within(body, "tool_choice"), FORCED)
CHAT = [
    unsupported("max_tokens", " Use 'max_completion_tokens' instead."), unsupported("stop"), unsupported("stream_options"),
    role("'messages[0].role' does not support 'system' with this model."), image(), DEMAND,
    Refusal("reasoning of replies", holds("reasoning_content"), NOTHING_BACK),
    Refusal("ids", lambda body: any(len(call["id"]) != 9 for call in calls(body)), NINE),
]
DEEPSEEK = [
    Refusal("stream", lambda body: body.get("stream"), "Your organization must be verified to stream this model.", "stream", "unsupported_value"),
    Refusal(
        "calls without reasoning", lambda body: any("tool_calls" in message and "reasoning_content" not in message for message in turns(body)),
        "`reasoning_content` is missing in assistant tool call message at index 4",
    ),
    Refusal(
        "a user after a tool", lambda body: ("tool", "user") in list(zip(roles(body), roles(body)[1:])),
        "Unexpected role 'user' after role 'tool'",
    ),
]
AZURE = [unsupported("parallel_tool_calls"), unsupported("max_tokens", " Use 'max_completion_tokens' instead."), role(), DEMAND]
RESPONSES = [
    unsupported("reasoning.effort"), unsupported("top_p"), role(), image(), DEMAND,
    Refusal(
        "reasoning items", lambda body: any(item.get("type") == "reasoning" for item in body["input"]),
        "The encrypted content for item rs_1 could not be verified.", code="invalid_encrypted_content",
    ),
]
# A conversation with pictures, and one whose instructions the user says, is continued by the id of the response as any other.
CONTINUED = [
    role(),
    Refusal(
        "the last response", lambda body: body.get("previous_response_id") == "resp_1", "Previous response with id 'resp_1' not found.",
        "previous_response_id", "previous_response_not_found",
    ),
]
THINKING = [Refusal("signatures", holds("c2ln1"), BOUND), role(), image()]
MESSAGES = [Refusal("temperature", lambda body: within(body, "temperature"), "`temperature` is deprecated for this model."), DEMAND]
GEMINI = [
    Refusal("penalties", lambda body: within(body, "generationConfig.presencePenalty"), "Penalty is not enabled for this model"),
    Refusal("thoughts", lambda body: within(body, "generationConfig.thinkingConfig"), "Thinking is not enabled for models/gemini-2.0-flash"),
    role("Developer instruction is not enabled for models/gemma-3-27b-it"), image(),
    Refusal("signatures", holds("c2lnMQ=="), "Thought signature is not valid."),
    Refusal("a demand", lambda body: within(body, "toolConfig.functionCallingConfig"), "Function calling mode ANY is not supported for this model"),
]
CONVERSE_THINKING = [
    Refusal("signatures", holds("c2lnMQ=="), BEHIND + BOUND), role("This model doesn't support system messages. Try again without them."), image(),
]
CONVERSE = [
    Refusal("topP", lambda body: within(body, "inferenceConfig.topP"), BEHIND + BOTH),
    Refusal("a demand", lambda body: within(body, "toolConfig.toolChoice"), NO_CHOICE),
]
NOVA = [role("This model doesn't support system messages. Try again without them."), image("This model doesn't support the image content block that you provided.")]
