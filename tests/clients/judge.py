"""Compares each request of `unfazed run` with that of the provider's own client: the address, the query, the key and the body.

    python3 -m venv venv && venv/bin/pip install openai==3.54.0 anthropic==2.14.0 google-genai==3.6.1 botocore==1.44.8
    venv/bin/python tests/clients/judge.py target/release/unfazed

The command speaks to a server: chat completions, Responses, Anthropic's messages, Gemini and Converse, and deployments of Azure and Vertex, with
keys and with tokens that a program prints. Then the client gets what was in the body, and has to send the same to the same place. What
is sent to Azure and Vertex is held against the types of the SDKs, too.
"""

import json
import os
import re
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Callable
from urllib.parse import parse_qsl, urlsplit

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "dialects"))
import anthropic  # noqa: E402
import botocore.config  # noqa: E402
import botocore.session  # noqa: E402
import openai  # noqa: E402
from dialects import AZURE, CHAT, CONVERSE, GEMINI, MESSAGES, RESPONSES, Dialect, converse, gemini, judged, streams  # noqa: E402
from google import genai  # noqa: E402
from google.genai import types  # noqa: E402
from google.oauth2.credentials import Credentials  # noqa: E402
from played import ATTACHED, KEY, run, serving  # noqa: E402

# Headers that say what is sent, and who sends it.
HEADERS = ("content-type", "authorization", "api-key", "x-api-key", "x-goog-api-key", "anthropic-version")
SETTINGS = ("ANTHROPIC_", "AWS_", "AZURE_", "GEMINI_", "GOOGLE_", "OPENAI_")
PROJECT, LOCATION = "my-project", "us-central1"
TOKEN = {"api_key": None, "token": {"command": ["echo", KEY]}}
VERTEX = replace(GEMINI, name="vertex", base=f"/v1/projects/{PROJECT}/locations/{LOCATION}/publishers/google")
# The client has gone over to a newer version, which takes no temperature. Keys of either header are taken.
PINNED = {"anthropic-version": "2023-06-01"}


def openais(client):
    return lambda body, _: client.chat.completions.create(**body)


def by_openai(address):
    return openais(openai.OpenAI(base_url=f"{address}/v1", api_key=KEY, max_retries=0))


def by_responses(address):
    client = openai.OpenAI(base_url=f"{address}/v1", api_key=KEY, max_retries=0)
    return lambda body, _: client.responses.create(**body)


def by_azure(address):
    return openais(openai.AzureOpenAI(azure_endpoint=address, api_version=AZURE.model["api_version"], api_key=KEY, max_retries=0))


def by_entra(address):
    return openais(openai.AzureOpenAI(azure_endpoint=address, api_version=AZURE.model["api_version"], azure_ad_token=KEY, max_retries=0))


def by_anthropic(address):
    headers = {**PINNED, "x-api-key": KEY, "authorization": anthropic.omit}
    client = anthropic.Anthropic(base_url=address, api_key=KEY, default_headers=headers, max_retries=0)
    return lambda body, _: client.messages.create(**body)


def by_oauth(address):
    client = anthropic.Anthropic(base_url=address, auth_token=KEY, default_headers=PINNED, max_retries=0)
    return lambda body, _: client.messages.create(**body)


def googles(client):
    def ask(body, streamed):
        settings = {name: body[name] for name in ("systemInstruction", "tools", "toolConfig") if name in body}
        settings |= {**body.get("generationConfig", {}), "automaticFunctionCalling": {"disable": True}}
        config = types.GenerateContentConfig.model_validate(settings)
        generate = client.models.generate_content_stream if streamed else client.models.generate_content
        return generate(model=gemini.MODEL, contents=body["contents"], config=config)

    return ask


def by_google(address):
    # The client has gone over to v1 (3.0); v1beta has more.
    return googles(genai.Client(api_key=KEY, http_options={"base_url": address, "api_version": "v1beta"}))


def by_vertex(address):
    options = {"base_url": address, "api_version": "v1"}
    return googles(genai.Client(vertexai=True, project=PROJECT, location=LOCATION, credentials=Credentials(KEY), http_options=options))


def by_botocore(address):
    session = botocore.session.Session()
    session.set_credentials("AKIDJUDGE", KEY)
    config = botocore.config.Config(retries={"total_max_attempts": 1})
    client = session.create_client("bedrock-runtime", region_name="eu-west-1", endpoint_url=address, config=config)

    def ask(body, streamed):
        body = converse.native(body, converse.operation("converse").input_shape)
        return (client.converse_stream if streamed else client.converse)(modelId=converse.MODEL, **body)

    return ask


@dataclass
class Way:
    dialect: Dialect
    client: Callable
    # What the agent's file says of the model beside.
    more: dict


WAYS = [
    Way(CHAT, by_openai, {}), Way(RESPONSES, by_responses, {}), Way(AZURE, by_azure, {}), Way(AZURE, by_entra, TOKEN),
    Way(MESSAGES, by_anthropic, {}), Way(MESSAGES, by_oauth, TOKEN), Way(GEMINI, by_google, {}), Way(VERTEX, by_vertex, TOKEN),
    Way(CONVERSE, by_botocore, {}),
]


def spelled(value):
    """A value with its names as Google documents them: its client writes some as protocol buffers do, and Google reads both."""
    if isinstance(value, dict):
        return {re.sub("_([a-z])", lambda found: found[1].upper(), name): spelled(member) for name, member in value.items()}
    return [spelled(item) for item in value] if isinstance(value, list) else value


def told(request, dialect=None):
    """What of a request has to be the same, with the query in any order."""
    address = urlsplit(request.path)
    # A client of Bedrock sends a key over TLS alone, and signs here. `tests/bedrock/judge.py` looks at keys and signatures.
    compared = HEADERS[:1] if "/converse" in address.path else HEADERS
    headers = {name: value for name, value in request.headers.items() if name in compared}
    return {"path": address.path, "query": sorted(parse_qsl(address.query)), "headers": headers, "body": spelled(request.body) if dialect in (GEMINI, VERTEX) else request.body}


def play(way, unfazed, streamed):
    """The requests of the command, and those of the client with the same bodies."""
    seen = []

    def reply(request):
        seen.append(request)
        return (200, *way.dialect.answer(min(len(seen), 3), streams(request)))

    with serving(reply) as address:
        entry = way.dialect.entry(address, stream=streamed, **way.more)
        model = {name: value for name, value in entry.items() if value is not None}
        agent = {"system": "Be brief.", "models": {"m": model}, "tools": {"echo": {"kind": "builtin"}}}
        ended, kept = run(unfazed, agent, {}, ATTACHED)
        if ended.returncode or len(seen) != 3:
            sys.exit(f"{way.client.__name__}: the run ended with {ended.returncode} after {len(seen)} requests\n{ended.stdout}{ended.stderr}")
        if KEY in ended.stdout + ended.stderr + kept:
            sys.exit(f"{way.client.__name__}: the key is shown or kept")
        sent, ask = list(seen), way.client(address)
        for request in sent:
            answer = ask(request.body, streamed)
            # Some ask for a stream only when it is read.
            list(answer if streamed else [])
    return sent, seen[3:]


def different(sent, own, at=""):
    """Where two values are different."""
    if isinstance(sent, dict) and isinstance(own, dict):
        for name in {**sent, **own}:
            yield from different(sent.get(name, "nothing"), own.get(name, "nothing"), f"{at}.{name}")
    elif isinstance(sent, list) and isinstance(own, list) and len(sent) == len(own):
        for index, (one, other) in enumerate(zip(sent, own)):
            yield from different(one, other, f"{at}.{index}")
    elif sent != own:
        yield f"{at}: {json.dumps(sent)[:300]} is sent, and {json.dumps(own)[:300]} by the client"


def judge(unfazed, way, streamed):
    """How many requests were compared, and what is wrong with them."""
    sent, own = play(way, unfazed, streamed)
    wrong = []
    for request, other in zip(sent, own, strict=True):
        # Compatible servers take back what their models thought.
        wrong += judged(way.dialect, request, {"reasoning_content"} if way.dialect is CHAT else frozenset())
        wrong += different(told(request), told(other, way.dialect))
    return len(sent), [f"{way.client.__name__}, streamed {streamed}: {why}" for why in wrong]


def main():
    unfazed = os.path.abspath(sys.argv[1])
    # Clients read settings from the environment.
    for name in [name for name in os.environ if name.startswith(SETTINGS)]:
        del os.environ[name]
    # The client of Anthropic warns of models that end one day.
    warnings.simplefilter("ignore", DeprecationWarning)
    plays = [(way, streamed) for way in WAYS for streamed in (True, False)]
    with ThreadPoolExecutor(2) as pool:
        played = list(pool.map(lambda play: judge(unfazed, *play), plays))
    found = [why for _, wrong in played for why in wrong]
    if found:
        sys.exit("\n".join(found))
    print(f"{sum(compared for compared, _ in played)} requests are those of the providers' clients")


if __name__ == "__main__":
    main()
