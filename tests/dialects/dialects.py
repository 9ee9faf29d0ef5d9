"""The dialects that the command speaks, each with the types that judge its requests."""

import json
import os
import re
import sys
from dataclasses import dataclass, replace
from typing import Callable

TESTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path[1:1] = [os.path.join(TESTS, folder) for folder in ("openai", "google", "bedrock")]
import chat  # noqa: E402
import converse  # noqa: E402
import gemini  # noqa: E402
import messages  # noqa: E402
import pairs  # noqa: E402
import responses  # noqa: E402
import typed  # noqa: E402
from anthropic.types import ThinkingConfigParam, ToolChoiceParam  # noqa: E402
from formed import broken, is_object, malformed  # noqa: E402

IDENTITY = {"api_key": {"env": "JUDGE_KEY"}}


@dataclass
class Dialect:
    name: str
    # What the agent's file says of the model, but for the address.
    model: dict
    # What comes before the path of the API.
    base: str
    # The kind and the bytes of an answer: by its number, whether it is streamed, and whether the last one is a report.
    answer: Callable
    # What is wrong with a request of that path.
    problems: Callable
    # The ids of the calls in a request, and of their results.
    pairs: Callable
    # The body of an error that says so.
    error: Callable

    def entry(self, address, **more):
        return {**IDENTITY, **self.model, "base_url": address + self.base, **more}


def openais(kind):
    return {
        "answer": lambda number, streamed, reports=False: typed.answer(kind, number, reports, streamed),
        "problems": lambda _, body, beyond=frozenset(): typed.problems(kind, body, beyond),
        "error": lambda says, param=None, code=None: {"error": {"message": says, "type": "invalid_request_error", "param": param, "code": code}},
    }


CHAT = Dialect("chat", {"api": "openai", "model": "gpt-4o", "max_tokens": 500, "ask_window": False}, "/v1", pairs=pairs.of_chat, **openais(chat))


def strange(number, streamed, reports=False):
    """Whole answers of a compatible server: ids twice and of any form, arguments that are no object, calls without a text."""
    kind, data = CHAT.answer(number, False, reports)
    for usual, other in STRANGE_PARTS.items():
        data = data.replace(json.dumps(usual).encode(), json.dumps(other).encode())
    return kind, data


STRANGE_PARTS = {
    "call_1": "functions.echo:0", "call_2": "functions.echo:0",
    json.dumps({"text": "hello 2"}): "say hello 2", "Let me try.": " ",
}
STRANGE = replace(CHAT, name="strange", answer=strange)


def problems_of_azure(path, body, beyond=frozenset()):
    """OpenAI refuses ids from 41 characters on."""
    ids = {identity for of in pairs.of_chat(body) for identity in of}
    return CHAT.problems(path, body, beyond) + [f"id {identity}" for identity in ids if not re.fullmatch("[a-zA-Z0-9_-]{1,40}", identity)]


AZURE = replace(CHAT, name="azure", model={"api": "azure", "model": "gpt-4o", "api_version": "2024-10-21", "max_tokens": 500}, base="", problems=problems_of_azure)
RESPONSES = Dialect(
    "responses", {"api": "responses", "model": "gpt-5", "max_tokens": 500, "ask_window": False, "extra": {"reasoning": {"effort": "low"}}},
    "/v1", pairs=pairs.of_responses, **openais(responses),
)
THINKING = {"thinking": {"type": "enabled", "budget_tokens": 1024}}
MESSAGES = Dialect(
    "messages", {"api": "anthropic", "model": "claude-sonnet-4-5", "max_tokens": 4000, "ask_window": False, "extra": THINKING},
    "", pairs=pairs.of_messages, **{**openais(messages), "error": lambda says, *_: {"type": "error", "error": {"type": "invalid_request_error", "message": says}}},
)
GEMINI = Dialect(
    "gemini", {"api": "gemini", "model": gemini.MODEL, "max_tokens": 500, "ask_window": False, "extra": {"generationConfig": {"thinkingConfig": {"includeThoughts": True}}}},
    "", gemini.answer, lambda _, body, __=None: gemini.problems(body), pairs.of_gemini,
    lambda says, *_: {"error": {"code": 400, "message": says, "status": "INVALID_ARGUMENT"}},
)
CLAUDES = {"thinking": ThinkingConfigParam, "tool_choice": ToolChoiceParam}


def problems_of_converse(path, body, _=None):
    """Further fields are those of the model's own API: here of Anthropic's. They are free in botocore's model, and so is a
    schema, which is a text there."""
    further = body.get("additionalModelRequestFields", {})
    found = [f"additionalModelRequestFields.{name}: no such field" for name in further if name not in CLAUDES]
    found += [f"additionalModelRequestFields.{why}" for name in further if name in CLAUDES for why in typed.wrong(CLAUDES[name], further[name], {})]
    schema = body.get("outputConfig", {}).get("textFormat", {}).get("structure", {}).get("jsonSchema", {}).get("schema")
    found += [f"outputConfig: the schema is {schema}"] * (schema is not None and not is_object(schema))
    return found or converse.problems(path, body)


CONVERSE = Dialect(
    "converse", {"api": "bedrock", "region": "eu-west-1", "model": converse.MODEL, "max_tokens": 4000, "extra": {"additionalModelRequestFields": THINKING}},
    "", converse.answer, problems_of_converse, pairs.of_converse, lambda says, *_: {"message": says},
)
FIVE = [CHAT, RESPONSES, MESSAGES, GEMINI, CONVERSE]


def streams(request):
    """Whether a streamed answer is asked for."""
    return request.body.get("stream", False) or request.path.endswith("-stream") or ":stream" in request.path


def refusing(status, body):
    return status, "application/json", json.dumps(body).encode()


def judged(dialect, request, beyond=frozenset()):
    """What is wrong with a request; `beyond`: fields that are sent on purpose and are not in the types."""
    found = [*dialect.problems(request.path.partition("?")[0], request.body, beyond), *malformed(request.body)]
    return [f"{request.path}: {why}" for why in found]


def overlooked(dialect, request, beyond=frozenset()):
    """The places of a request where the judge does not find what is wrong, if something is."""
    for at, body in broken(request.body):
        if not judged(dialect, replace(request, body=body), beyond):
            yield f"{dialect.name}: what is wrong with {at} is not found"
