"""The clients of OpenAI and Anthropic through `unfazed serve`: judge.py UNFAZED

Their own retries are off: what is tried again, the gateway tries again. Needs the packages `openai` and `anthropic`.
"""

import sys

import anthropic
import openai
from scene import serving


def main(command: str) -> None:
    with serving(command) as url:
        judge_openai(openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0))
        judge_anthropic(anthropic.Anthropic(base_url=url, api_key="none", max_retries=0))
    print("gateway: openai and anthropic are answered")


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


if __name__ == "__main__":
    main(sys.argv[1])
