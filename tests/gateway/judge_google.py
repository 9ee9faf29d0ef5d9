"""Google's client through `unfazed serve`: judge_google.py UNFAZED

Its own retries are off: what is tried again, the gateway tries again. Needs the package `google-genai`.
"""

import sys

from google import genai
from google.genai import errors, types
from scene import serving


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


def main(command: str) -> None:
    with serving(command) as url:
        once = types.HttpOptions(base_url=url, retry_options=types.HttpRetryOptions(attempts=1))
        judge(genai.Client(api_key="none", http_options=once))
    print("gateway: google-genai is answered")


if __name__ == "__main__":
    main(sys.argv[1])
