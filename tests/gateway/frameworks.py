"""LangChain and pydantic-ai through `unfazed serve`: frameworks.py UNFAZED

In front of a model of the dialect that a client speaks, and of each other one; what is held is what the objects of a client hold.
Needs the packages `langchain-openai`, `langchain-anthropic`, `langchain-google-genai` and `pydantic-ai-slim[openai,anthropic,google]`.
"""

import asyncio
import base64
import itertools
import sys
from collections.abc import AsyncIterable, Callable, Iterator
from typing import Any

import anthropic
import openai
import pydantic
from google import genai
from langchain_anthropic import ChatAnthropic
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_google_genai import ChatGoogleGenerativeAI
from langchain_openai import ChatOpenAI
from pydantic_ai import Agent, BinaryContent, NativeOutput
from pydantic_ai.exceptions import ModelHTTPError, ModelAPIError
from pydantic_ai.models import Model
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.google import GoogleModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.profiles import ModelProfile
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.google import GoogleProvider
from pydantic_ai.providers.openai import OpenAIProvider
from scene import converting, given_up, serving

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
# What is said, the status of the failure, and how many attempts there are.
FAILURES = [("slow down", 429, 1), ("give up", 429, 1), ("who am I", 401, 1), ("fall over", 500, 4), ("too busy", 529, 4)]
at_first = (f"at first {number}." for number in itertools.count(1))


class Weather(pydantic.BaseModel):
    """The weather."""

    city: str
    degrees: int


OSLO = Weather(city="Oslo", degrees=7)


@tool
def look(item: str) -> str:
    """Looks at an item."""
    return f"a {item}"


def failing(url: str, ask: Callable[[str], object]) -> Iterator[tuple[Exception, str, int, int]]:
    """The error that each failure becomes; none is asked for again."""
    for said, status, attempts in FAILURES:
        before = given_up(url)
        try:
            answer = ask(said)
        except Exception as error:  # which one, the caller holds
            yield error, said, status, attempts
        else:
            raise AssertionError(f"{said}: an error passes for an answer: {answer}")
        assert given_up(url) - before == 1, f"{said}: the client has asked again"


def judge_langchain(url: str, model: BaseChatModel) -> None:
    answer = model.invoke(next(at_first))
    assert answer.text == "hello at last", answer
    chunks = list(model.stream(next(at_first)))
    assert "".join(chunk.text for chunk in chunks) == "hello at last", chunks
    said: list[Any] = [HumanMessage("look at the lamp")]
    tools = model.bind_tools([look])
    for first in [tools.invoke(said), sum_of(tools.stream(said))]:
        assert [(call["name"], call["args"]) for call in first.tool_calls] == [("look", {"item": "lamp"})], first
        result = ToolMessage(look.invoke(first.tool_calls[0]["args"]), tool_call_id=first.tool_calls[0]["id"], name="look")
        second = tools.invoke([*said, first, result])
        assert second.text == "found 42", second
        assert second.usage_metadata and second.usage_metadata["total_tokens"] == 12, second
    assert model.with_structured_output(Weather, method="json_schema").invoke("the weather as JSON") == OSLO
    picture = {"type": "image", "base64": PIXEL, "mime_type": "image/png"}
    answer = model.invoke([HumanMessage([{"type": "text", "text": "what is in the picture"}, picture])])
    assert answer.text == "a dot", answer
    for error, what, status, attempts in failing(url, model.invoke):
        cause = error if isinstance(error, (openai.APIStatusError, anthropic.APIStatusError)) else error.__cause__
        if isinstance(cause, genai.errors.APIError):
            assert cause.code == status, (what, error)
        else:
            assert isinstance(cause, (openai.APIStatusError, anthropic.APIStatusError)), (what, error)
            told(cause, what, status, attempts)
    try:
        text = [chunk.text for chunk in model.stream("break off")]
    except Exception as error:
        # Of the event of an error of Responses LangChain makes a `ValueError`.
        known = (openai.APIError, anthropic.APIError, genai.errors.APIError)
        assert isinstance(error, known) or isinstance(error.__cause__, known) or "ends in the middle" in str(error), repr(error)
    else:
        raise AssertionError(f"a stream that broke off passes for a whole one: {text}")


def sum_of(chunks: Iterator[Any]) -> Any:
    first = next(chunks)
    return sum(chunks, first)


def told(error: openai.APIStatusError | anthropic.APIStatusError, what: str, status: int, attempts: int) -> None:
    headers = error.response.headers
    assert error.status_code == status, (what, error)
    assert headers["x-should-retry"] == "false", (what, headers)
    assert headers["x-unfazed-attempts"] == str(attempts), (what, headers)
    assert headers.get("retry-after") == ("7" if what == "slow down" else None), (what, headers)


async def judge_pydantic(url: str, model: Model) -> None:
    agent = Agent(model)
    assert (await agent.run(next(at_first))).output == "hello at last"
    async with agent.run_stream(next(at_first)) as streamed:
        assert await streamed.get_output() == "hello at last"
    looked = []
    looker = Agent(model)

    @looker.tool_plain(name="look")
    def _(item: str) -> str:
        looked.append(item)
        return f"a {item}"

    run = await looker.run("look at the lamp")
    assert (run.output, looked) == ("found 42", ["lamp"]), run
    assert (run.usage.input_tokens, run.usage.output_tokens) == (12, 5), run.usage
    run = await looker.run("look at the lamp", event_stream_handler=streamed_events)
    assert (run.output, looked) == ("found 42", ["lamp", "lamp"]), run
    assert (await Agent(model, output_type=NativeOutput(Weather)).run("the weather as JSON")).output == OSLO
    picture = BinaryContent(base64.b64decode(PIXEL), media_type="image/png")
    assert (await agent.run(["what is in the picture", picture])).output == "a dot"
    for what, status, attempts in FAILURES:
        before = given_up(url)
        try:
            answer = await agent.run(what)
        except ModelHTTPError as error:
            assert error.status_code == status, (what, error)
            if isinstance(error.__cause__, (openai.APIStatusError, anthropic.APIStatusError)):
                told(error.__cause__, what, status, attempts)
        else:
            raise AssertionError(f"{what}: an error passes for an answer: {answer}")
        assert given_up(url) - before == 1, f"{what}: the client has asked again"
    try:
        async with agent.run_stream("break off") as streamed:
            text = await streamed.get_output()
    except (ModelAPIError, openai.APIError, anthropic.APIError, genai.errors.APIError):
        pass
    else:
        raise AssertionError(f"a stream that broke off passes for a whole one: {text}")


async def streamed_events(_: object, events: AsyncIterable[object]) -> None:
    """With a handler of events the answers are streamed."""
    async for _ in events:
        pass


def langchain(dialect: str, url: str, model: str) -> BaseChatModel:
    if dialect in ("gpt", "codex"):
        return ChatOpenAI(model=model, base_url=f"{url}/v1", api_key="none", use_responses_api=dialect == "codex", stream_usage=True)
    if dialect == "claude":
        return ChatAnthropic(model_name=model, base_url=url, api_key="none", max_tokens_to_sample=99)
    # It does not obey `x-should-retry`.
    return ChatGoogleGenerativeAI(model=model, base_url=url, google_api_key="none", max_retries=1)


def pydantic_ai(dialect: str, url: str, model: str) -> Model:
    # What the names of models would say.
    profile = ModelProfile(supports_json_schema_output=True)
    if dialect == "gpt":
        return OpenAIChatModel(model, provider=OpenAIProvider(base_url=f"{url}/v1", api_key="none"), profile=profile)
    if dialect == "codex":
        return OpenAIResponsesModel(model, provider=OpenAIProvider(base_url=f"{url}/v1", api_key="none"), profile=profile)
    if dialect == "claude":
        return AnthropicModel(model, provider=AnthropicProvider(anthropic_client=anthropic.AsyncAnthropic(base_url=url, api_key="none")), profile=profile)
    return GoogleModel(model, provider=GoogleProvider(api_key="none", base_url=url), profile=profile)


async def main(command: str) -> None:
    dialects = ["gpt", "codex", "claude", "gemini"]
    with serving(command) as relayed, converting(command) as converted:
        for dialect in dialects:
            for url, model in [(relayed, "any"), *((converted, other) for other in dialects if other != dialect)]:
                try:
                    judge_langchain(url, langchain(dialect, url, model))
                    await judge_pydantic(url, pydantic_ai(dialect, url, model))
                except BaseException as error:
                    error.add_note(f"{dialect} at {model}")
                    raise
    print("gateway: LangChain and pydantic-ai are answered, by models of all other dialects too")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
