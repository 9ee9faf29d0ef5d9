"""The clients of OpenAI and Anthropic through `unfazed serve`: judge.py UNFAZED

Their own retries are off: what is tried again, the gateway tries again. Needs the packages `openai`,
`openai-agents` and `anthropic`.
"""

import asyncio
import sys

import agents
import anthropic
import openai
from scene import converting, serving


def main(command: str) -> None:
    with serving(command) as url:
        judge_openai(openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0))
        judge_anthropic(anthropic.Anthropic(base_url=url, api_key="none", max_retries=0))
    with converting(command) as url:
        client = openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)
        for model in ["claude", "codex", "gemini"]:
            judge_chat_of(client, model)
        for model in ["claude", "gpt", "gemini"]:
            judge_responses_of(client, model)
            asyncio.run(judge_agents(f"{url}/v1", model))
        for model in ["gpt", "codex", "gemini"]:
            judge_messages_of(anthropic.Anthropic(base_url=url, api_key="none", max_retries=0), model)
    print("gateway: openai and anthropic are answered, by models of all other dialects too")


def judge_openai(client: openai.OpenAI) -> None:
    said = [{"role": "user", "content": "hi"}]
    raw = client.chat.completions.with_raw_response.create(model="gpt-5", messages=said)
    assert raw.headers["x-unfazed-attempts"] == "3", dict(raw.headers)
    assert raw.parse().choices[0].message.content == "hello"
    chunks = list(client.chat.completions.create(model="gpt-5", messages=said, stream=True))
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == "hello", chunks
    assert client.responses.create(model="gpt-5", input="hi").output_text == "hello"
    events = list(client.responses.create(model="gpt-5", input="hi", stream=True))
    assert events[-1].type == "response.completed", events[-1]
    try:
        list(client.chat.completions.create(model="m", messages=[{"role": "user", "content": "break off"}], stream=True))
    except openai.APIError as error:
        assert error.message, error
    else:
        raise AssertionError("a stream that broke off passes for a whole one")
    try:
        client.chat.completions.create(model="m", messages=[{"role": "user", "content": "give up"}])
    except openai.RateLimitError as error:
        assert error.code == "insufficient_quota", error
        assert error.response.headers["x-should-retry"] == "false"
        assert error.response.headers["x-unfazed-attempts"] == "1", dict(error.response.headers)
    else:
        raise AssertionError("an error passes for an answer")
    assert [model.id for model in client.models.list()] == []


def judge_anthropic(client: anthropic.Anthropic) -> None:
    said = [{"role": "user", "content": "hi"}]
    message = client.messages.create(model="claude", max_tokens=9, messages=said)
    assert message.content[0].text == "hello", message
    with client.messages.stream(model="claude", max_tokens=9, messages=said) as stream:
        assert stream.get_final_text() == "hello"
    try:
        with client.messages.stream(model="m", max_tokens=9, messages=[{"role": "user", "content": "break off"}]) as stream:
            stream.get_final_text()
    except anthropic.APIStatusError as error:
        assert "api_error" in str(error.body), error.body
    else:
        raise AssertionError("a stream that broke off passes for a whole one")
    assert list(client.models.list()) == []


def judge_chat_of(client: openai.OpenAI, model: str) -> None:
    tools = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]
    said = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}]
    raw = client.chat.completions.with_raw_response.create(model=model, messages=said, tools=tools, logit_bias={"1": 2})
    assert raw.headers["x-unfazed-left-out"] == "logit_bias", dict(raw.headers)
    choice = raw.parse().choices[0]
    assert choice.finish_reason == "tool_calls", choice
    assert (choice.message.content, choice.message.tool_calls[0].function.name) == ("I look.", "look"), choice
    said += [choice.message, {"role": "tool", "tool_call_id": choice.message.tool_calls[0].id, "content": "42"}]
    answer = client.chat.completions.create(model=model, messages=said, tools=tools)
    assert answer.choices[0].message.content == "found 42", answer
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (9, 3), answer
    with client.chat.completions.stream(model=model, messages=said[:2], tools=tools, stream_options={"include_usage": True}) as stream:
        streamed = stream.get_final_completion()
    call = streamed.choices[0].message.tool_calls[0].function
    assert (streamed.choices[0].message.content, call.name, call.arguments) == ("I look.", "look", '{"item":"lamp"}'), streamed
    assert streamed.usage.total_tokens == 5, streamed


def judge_responses_of(client: openai.OpenAI, model: str) -> None:
    tools = [{"type": "function", "name": "look", "parameters": {"type": "object"}, "strict": False}]
    said = [{"role": "user", "content": "hi"}]
    raw = client.responses.with_raw_response.create(model=model, instructions="Be brief.", input=said, tools=tools, store=True)
    assert raw.headers["x-unfazed-left-out"] == "store", dict(raw.headers)
    response = raw.parse()
    assert (response.status, response.store, response.output_text) == ("completed", False, "I look."), response
    # Every field, and of the type that the SDK documents.
    type(response).model_validate(response.to_dict())
    assert [item.type for item in response.output] == ["message", "function_call"], response
    said += [*response.output, {"type": "function_call_output", "call_id": response.output[1].call_id, "output": "42"}]
    answer = client.responses.create(model=model, input=said, tools=tools)
    assert answer.output_text == "found 42", answer
    assert (answer.usage.input_tokens, answer.usage.output_tokens, answer.usage.total_tokens) == (9, 3, 12), answer
    with client.responses.stream(model=model, input=said[:1], tools=tools) as stream:
        events = list(stream)
        streamed = stream.get_final_response()
    assert [event.sequence_number for event in events] == list(range(len(events))), events
    assert {"response.content_part.added", "response.output_text.delta", "response.function_call_arguments.done"} < {event.type for event in events}
    assert (streamed.output_text, streamed.output[1].arguments) == ("I look.", '{"item":"lamp"}'), streamed
    assert streamed.usage.total_tokens == 5, streamed
    try:
        client.responses.create(model=model, input="hi", previous_response_id=response.id)
    except openai.BadRequestError as error:
        assert "previous_response_id" in error.message, error
    else:
        raise AssertionError("a response that nobody has kept is continued")


async def judge_agents(url: str, model: str) -> None:
    @agents.function_tool
    def look(item: str) -> str:
        """Looks at an item."""
        return f"a {item}"

    agents.set_tracing_disabled(True)
    async with openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client:
        agent = agents.Agent(name="looker", instructions="Be brief.", tools=[look], model=agents.OpenAIResponsesModel(model, client))
        assert (await agents.Runner.run(agent, "hi")).final_output == "found 42"
        streamed = agents.Runner.run_streamed(agent, "hi")
        async for _ in streamed.stream_events():
            pass
        assert streamed.final_output == "found 42", streamed


def judge_messages_of(client: anthropic.Anthropic, model: str) -> None:
    tools = [{"name": "look", "input_schema": {"type": "object"}}]
    said = [{"role": "user", "content": "hi"}]
    message = client.messages.create(model=model, max_tokens=9, system="Be brief.", messages=said, tools=tools)
    assert message.stop_reason == "tool_use", message
    assert [block.type for block in message.content] == ["text", "tool_use"], message
    result = {"type": "tool_result", "tool_use_id": message.content[1].id, "content": "42"}
    said += [{"role": "assistant", "content": message.content}, {"role": "user", "content": [result]}]
    answer = client.messages.create(model=model, max_tokens=9, messages=said, tools=tools)
    assert (answer.content[0].text, answer.stop_reason) == ("found 42", "end_turn"), answer
    with client.messages.stream(model=model, max_tokens=9, messages=said[:1], tools=tools) as stream:
        streamed = stream.get_final_message()
    assert (streamed.content[0].text, streamed.content[1].input) == ("I look.", {"item": "lamp"}), streamed
    assert (streamed.stop_reason, streamed.usage.output_tokens) == ("tool_use", 2), streamed


if __name__ == "__main__":
    main(sys.argv[1])
