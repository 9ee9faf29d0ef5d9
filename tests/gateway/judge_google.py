"""Google's client through `unfazed serve`: judge_google.py UNFAZED

Its own retries are off: what is tried again, the gateway tries again. Needs the package `google-genai`.
"""

import sys

from google import genai
from google.genai import errors, types
from scene import converting, serving


def judge(client: genai.Client) -> None:
    answer = client.models.generate_content(model="gemini-2.5-flash", contents="hi")
    assert answer.text == "hello", answer
    assert answer.sdk_http_response.headers["x-unfazed-attempts"] == "3", answer.sdk_http_response
    chunks = list(client.models.generate_content_stream(model="gemini-2.5-flash", contents="hi"))
    assert "".join(chunk.text or "" for chunk in chunks) == "hello", chunks
    try:
        text = [chunk.text for chunk in client.models.generate_content_stream(model="m", contents="break off")]
    except errors.APIError as error:
        assert error.message, error
    else:
        raise AssertionError(f"a stream that broke off passes for a whole one: {text}")
    try:
        client.models.generate_content(model="m", contents="give up")
    except errors.ClientError as error:
        assert error.code == 429, error
    else:
        raise AssertionError("an error passes for an answer")
    assert [model.name for model in client.models.list()] == []


def judge_converted(client: genai.Client, model: str) -> None:
    declared = types.FunctionDeclaration(
        name="look", parameters=types.Schema(type=types.Type.OBJECT, properties={"item": types.Schema(type=types.Type.STRING)})
    )
    config = types.GenerateContentConfig(system_instruction="Be brief.", response_logprobs=True, tools=[types.Tool(function_declarations=[declared])])
    said = [types.Content(role="user", parts=[types.Part(text="hi")])]
    answer = client.models.generate_content(model=model, contents=said, config=config)
    assert answer.sdk_http_response.headers["x-unfazed-left-out"] == "generationConfig.responseLogprobs", answer.sdk_http_response
    text, call = answer.candidates[0].content.parts
    assert (text.text, call.function_call.name, call.function_call.args) == ("I look.", "look", {"item": "lamp"}), answer
    assert (answer.usage_metadata.total_token_count, answer.candidates[0].finish_reason) == (5, types.FinishReason.STOP), answer
    # The result names the function alone, as the SDK's own loop does.
    result = types.Part.from_function_response(name="look", response={"result": "42"})
    said += [answer.candidates[0].content, types.Content(role="user", parts=[result])]
    assert client.models.generate_content(model=model, contents=said, config=config).text == "found 42"
    pieces = list(client.models.generate_content_stream(model=model, contents=said[:1], config=config))
    parts = [part for piece in pieces for part in piece.candidates[0].content.parts]
    assert "".join(part.text or "" for part in parts) == "I look.", pieces
    assert parts[-1].function_call.args == {"item": "lamp"}, pieces
    assert [piece.candidates[0].finish_reason for piece in pieces][-1] == types.FinishReason.STOP, pieces

    def look(item: str) -> str:
        """Looks at an item."""
        return f"a {item}"

    chat = client.chats.create(model=model, config=types.GenerateContentConfig(tools=[look]))
    assert chat.send_message("hi").text == "found 42"


def main(command: str) -> None:
    def client(url: str) -> genai.Client:
        once = types.HttpOptions(base_url=url, retry_options=types.HttpRetryOptions(attempts=1))
        return genai.Client(api_key="none", http_options=once)

    with serving(command) as url:
        judge(client(url))
    with converting(command) as url:
        for model in ["claude", "gpt", "codex"]:
            judge_converted(client(url), model)
    print("gateway: google-genai is answered, by models of all other dialects too")


if __name__ == "__main__":
    main(sys.argv[1])
