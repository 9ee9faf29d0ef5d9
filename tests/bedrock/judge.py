"""Lets botocore judge what `unfazed run` sends to Bedrock: each body by its service model, each signature by its signer.

    python3 -m venv venv && venv/bin/pip install botocore==1.44.8
    venv/bin/python tests/bedrock/judge.py target/release/unfazed

A server plays a model that thinks, calls tools and answers, whole and in frames, and is busy twice. Credentials come from the
environment, from a process that a profile names, from a profile beside the keys of the environment, from an instance, from a container,
and from a token service that takes the token of a web identity or the signature of another profile; a key of Bedrock comes in their
place. Those of a container are refused once. Others do not come, and then the run says why without what is secret.
"""

import base64
import json
import os
import subprocess
import sys
import tempfile
import threading
from datetime import datetime, timedelta, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from unittest import mock
from urllib.parse import parse_qsl

import botocore.auth
import botocore.loaders
import botocore.model
import botocore.parsers
import botocore.validate
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from converse import ANSWERS, MODEL, answer, event, frame, problems

ATTACHED = {"photo.png": b"\x89PNG\r\n\x1a\nphoto", "report.pdf": b"%PDF-1.7 report"}
AGENT = """version: 1
policy: policy.yaml
system: Be brief.
task: Say hello.
models:
  m: {{api: bedrock, region: eu-west-1, base_url: "{base}", model: "{model}", stream: {stream}, max_tokens: 5000{more}}}
tools:
  echo: {{kind: builtin}}
"""
POLICY = """version: 1
models: {"*": {retry: {backoff: {kind: constant, delay: 20ms, jitter: none}}}}
"""
SECRET, TOKEN, IDENTITY = "secret-of-the-judge", "token-of-the-judge", "identity-of-the-judge"
KEYS = {
    "environment": "AKIDENV", "profile": "AKIDPROFILE", "profile beside keys": "AKIDSTATIC", "instance": "AKIDINSTANCE",
    "web identity": "AKIDIDENTITY", "role": "AKIDROLE", "container": "AKIDCONTAINER", "refused once": "AKIDRENEWED",
}
# Those of the profile which takes a role, and of the credentials that a container gives first.
BASE, OLD = "AKIDBASE", "AKIDOLD"
# How a run ends that has no credentials.
MISSING = {
    "none": "there are no credentials for AWS",
    "failing process": "the `credential_process` of the profile `agents` failed (exit status: 3)",
    "single sign-on": "credential_process = aws configure export-credentials --profile agents",
    "missing profile": "there is no profile `agents`",
    "forbidden": "there are no credentials for AWS: Non-success status",
}
ROLE = "arn:aws:iam::123456789012:role/agents"
ASSUMED = """<{3}Response xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><{3}Result><Credentials>{0}</Credentials>
<AssumedRoleUser><Arn>{1}/{2}</Arn><AssumedRoleId>AROA:{2}</AssumedRoleId></AssumedRoleUser></{3}Result>
<ResponseMetadata><RequestId>r</RequestId></ResponseMetadata></{3}Response>"""
TOKENS = botocore.model.ServiceModel(botocore.loaders.Loader().load_service_model("sts", "service-2"))


class Model(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        raw = self.rfile.read(int(self.headers["content-length"]))
        if self.path == "/":
            return self.assume_role(dict(parse_qsl(raw.decode())), raw)
        server = self.server
        by = OLD if server.way == "refused once" and not server.refused else server.key
        if by == OLD and len(server.seen) == 2:
            server.refused.append(signed_wrong(self, raw, OLD))
            body = json.dumps({"message": "The security token included in the request is expired"}).encode()
            return self.answer(403, "application/json", body, {"x-amzn-errortype": "ExpiredTokenException:http://internal.amazon.com/"})
        server.seen.append((self.path, json.loads(raw), signed_wrong(self, raw, by) if server.signs else keyed_wrong(self)))
        number, streams = len(server.seen), self.path.endswith("-stream")
        if number == 1:
            # The body is a message alone, and the class stands in a header.
            body = json.dumps({"message": "Too many requests, please wait before trying again."}).encode()
            return self.answer(429, "application/json", body, {"x-amzn-errortype": "ThrottlingException:http://internal.amazon.com/"})
        if number == 2 and streams:
            busy = {":message-type": "exception", ":exception-type": "serviceUnavailableException"}
            body = event("messageStart", {"role": "assistant"}) + frame(busy, {"message": "try again"})
            return self.answer(200, "application/vnd.amazon.eventstream", body)
        self.answer(200, *answer(number - (2 if streams else 1), streams))

    def assume_role(self, asked, raw):
        """The token service; botocore reads its answer as the service model has it."""
        self.server.assumed.append(asked)
        signs = self.server.way == "role"
        action = "AssumeRole" if signs else "AssumeRoleWithWebIdentity"
        operation = TOKENS.operation_model(action)
        given = {name: value for name, value in asked.items() if name not in ("Action", "Version")}
        report = botocore.validate.ParamValidator().validate(given, operation.input_shape)
        right = {"Action": action, "Version": "2011-06-15", "RoleArn": ROLE, **({} if signs else {"WebIdentityToken": IDENTITY})}
        wrong = signed_wrong(self, raw, BASE, "sts") if signs else None
        if report.has_errors() or {**asked, **right} != asked or wrong:
            print(wrong or asked)
            return self.answer(400, "text/xml", b"<ErrorResponse><Error><Type>Sender</Type><Code>InvalidIdentityToken</Code><Message>no</Message></Error></ErrorResponse>")
        said = temporary(AccessKeyId=self.server.key, SessionToken=TOKEN)
        body = ASSUMED.format("".join(f"<{name}>{value}</{name}>" for name, value in said.items()), ROLE, given["RoleSessionName"], action).encode()
        read = botocore.parsers.QueryParser().parse({"status_code": 200, "headers": {}, "body": body}, operation.output_shape)
        assert read["Credentials"]["SessionToken"] == TOKEN, read
        self.answer(200, "text/xml", body)

    def do_PUT(self):
        self.answer(200, "text/plain", b"token-of-the-instance", {"x-aws-ec2-metadata-token-ttl-seconds": "21600"})

    def do_GET(self):
        if self.path == "/container":
            server = self.server
            server.given += 1
            if server.way == "forbidden" or self.headers.get("authorization") != IDENTITY:
                return self.answer(403, "application/json", json.dumps({"message": "no"}).encode())
            key = OLD if server.way == "refused once" and server.given == 1 else server.key
            return self.answer(200, "application/json", json.dumps(temporary(AccessKeyId=key, Token=TOKEN)).encode())
        if self.path.rstrip("/").endswith("security-credentials"):
            return self.answer(200, "text/plain", b"role")
        if self.path.endswith("security-credentials/role"):
            return self.answer(200, "application/json", json.dumps(temporary(AccessKeyId=KEYS["instance"], Code="Success", Type="AWS-HMAC", LastUpdated="2026-01-01T00:00:00Z", Token=TOKEN)).encode())
        self.answer(404, "text/plain", b"")

    def answer(self, status, kind, body, headers=None):
        self.send_response(status)
        for name, value in {"content-type": kind, "content-length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def temporary(**more):
    until = datetime.now(timezone.utc) + timedelta(hours=1)
    return {"SecretAccessKey": SECRET, "Expiration": until.strftime("%Y-%m-%dT%H:%M:%SZ"), **more}


def signed_wrong(request, raw, by, service="bedrock"):
    """What is wrong with the signature of a request, by botocore's signer."""
    found = request.headers.get("authorization", "")
    names = found.partition("SignedHeaders=")[2].partition(",")[0].split(";")
    key = found.partition("Credential=")[2].partition("/")[0]
    if key != by:
        return f"{key} signs, and not {by}"
    if not {"host", "x-amz-date", "content-type"} <= set(names):
        return f"these headers are signed: {names}"
    headers = {name: request.headers[name] for name in names if name != "host"}
    url = f"http://{request.headers['host']}{request.path}"
    again = AWSRequest(method="POST", url=url, headers=headers, data=raw)
    again.context["timestamp"] = request.headers["x-amz-date"]
    signer = botocore.auth.SigV4Auth(Credentials(key, SECRET, TOKEN), service, "eu-west-1")
    at = datetime.strptime(request.headers["x-amz-date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=timezone.utc)
    for name in ("x-amz-date", "x-amz-security-token"):
        del again.headers[name]
    with mock.patch("botocore.auth.get_current_datetime", lambda remove_tzinfo=True: at):
        signer.add_auth(again)
    expected = again.headers["authorization"]
    return None if expected.partition("Signature=")[2] == found.partition("Signature=")[2] else f"{found}\nis not\n{expected}"


def keyed_wrong(request):
    found = request.headers.get("authorization")
    return None if found == "Bearer key-of-bedrock" else f"the key is {found}"


def profile_of(way, folder):
    """What AWS's file says, where a profile is named; `None`: none is."""
    keys = f"aws_secret_access_key = {SECRET}\naws_session_token = {TOKEN}\n"
    return {
        "profile": f"[profile agents]\ncredential_process = cat {folder}/said.json\n",
        "profile beside keys": f"[profile agents]\naws_access_key_id = {KEYS['profile beside keys']}\n{keys}",
        "role": f"[profile agents]\nrole_arn = {ROLE}\nsource_profile = base\n[profile base]\naws_access_key_id = {BASE}\n{keys}",
        "failing process": f"[profile agents]\ncredential_process = sh -c 'echo SecretAccessKey {SECRET} {TOKEN} >&2; exit 3'\n",
        "single sign-on": "[profile agents]\nsso_account_id = 123456789012\nsso_region = eu-west-1\nsso_role_name = r\nsso_start_url = https://example.awsapps.com/start\n",
        "missing profile": f"[profile other]\naws_access_key_id = {BASE}\n{keys}",
    }.get(way)


def play(unfazed, streamed, way):
    server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    server.way, server.seen, server.assumed, server.refused, server.given = way, [], [], [], 0
    server.signs, server.key = way != "key", KEYS.get(way)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    base = f"http://127.0.0.1:{server.server_port}"
    with tempfile.TemporaryDirectory() as folder:
        environment = {"PATH": os.environ["PATH"], "HOME": folder, "AWS_EC2_METADATA_DISABLED": "true"}
        more, config = "", profile_of(way, folder)
        if config:
            environment["AWS_CONFIG_FILE"] = os.path.join(folder, "config")
            with open(environment["AWS_CONFIG_FILE"], "w", encoding="utf-8") as file:
                file.write(config)
            more = ", profile: agents"
        if way in ("environment", "profile beside keys"):
            environment |= {"AWS_ACCESS_KEY_ID": KEYS["environment"], "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_SESSION_TOKEN": TOKEN}
        elif way == "profile":
            with open(os.path.join(folder, "said.json"), "w", encoding="utf-8") as file:
                file.write(json.dumps(temporary(Version=1, AccessKeyId=KEYS["profile"], SessionToken=TOKEN)))
        elif way == "role":
            environment["AWS_ENDPOINT_URL_STS"] = base
        elif way in ("container", "refused once", "forbidden"):
            environment |= {"AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{base}/container", "AWS_CONTAINER_AUTHORIZATION_TOKEN": IDENTITY}
        elif way == "instance":
            environment |= {"AWS_EC2_METADATA_DISABLED": "false", "AWS_EC2_METADATA_SERVICE_ENDPOINT": base}
        elif way == "web identity":
            token = os.path.join(folder, "token")
            with open(token, "w", encoding="utf-8") as file:
                file.write(IDENTITY)
            environment |= {"AWS_ROLE_ARN": ROLE, "AWS_WEB_IDENTITY_TOKEN_FILE": token, "AWS_ROLE_SESSION_NAME": "judge", "AWS_ENDPOINT_URL_STS": base}
        elif way == "key":
            environment["BEDROCK_KEY"] = "key-of-bedrock"
            more = ", api_key: {env: BEDROCK_KEY}"
        with open(os.path.join(folder, "agent.yaml"), "w", encoding="utf-8") as file:
            file.write(AGENT.format(base=base, model=MODEL, stream=str(streamed).lower(), more=more))
        with open(os.path.join(folder, "policy.yaml"), "w", encoding="utf-8") as file:
            file.write(POLICY)
        for name, content in ATTACHED.items():
            with open(os.path.join(folder, name), "wb") as file:
                file.write(content)
        run = subprocess.run(
            [unfazed, "run", "agent.yaml", "--attach", "photo.png", "--attach", "report.pdf", "Say hello."],
            cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=90,
        )
        kept = "".join(open(os.path.join(at, name), encoding="utf-8", errors="replace").read() for at, _, names in os.walk(os.path.join(folder, ".unfazed")) for name in names)
    server.shutdown()
    for secret in (SECRET, TOKEN, IDENTITY, "key-of-bedrock"):
        if secret in run.stdout + run.stderr + kept:
            sys.exit(f"{way}: a secret was shown or kept")
    expected = len(ANSWERS) + (2 if streamed else 1)
    if way in MISSING:
        said = run.stderr + run.stdout
        if run.returncode == 0 or MISSING[way] not in said or "auth_error" not in said or server.seen:
            sys.exit(f"{way}: without credentials the run says\n{run.stdout}{run.stderr}")
        if way == "forbidden" and server.given != 1:
            sys.exit(f"{way}: the container is asked {server.given} times")
        return []
    if run.returncode != 0 or len(server.seen) != expected:
        sys.exit(f"{way}: the run ended with {run.returncode} after {len(server.seen)} requests of {expected}\n{run.stdout}{run.stderr}")
    if way in ("web identity", "role") and len(server.assumed) != 1:
        sys.exit(f"{way}: the role is assumed {len(server.assumed)} times")
    if way == "refused once" and (server.refused != [None] or server.given != 2 or "(ExpiredTokenException) and asked for again" not in kept):
        sys.exit(f"{way}: {server.refused} were refused, and the container was asked {server.given} times")
    path = f"/model/{MODEL.replace(':', '%3A')}/converse{'-stream' if streamed else ''}"
    wrong = [why for seen, _, why in server.seen if why] + [seen for seen, _, _ in server.seen if seen != path]
    if wrong:
        sys.exit(f"{way}: " + "\n".join(wrong))
    return [(path, body) for path, body, _ in server.seen]


def main():
    unfazed = os.path.abspath(sys.argv[1])
    judged = wrong = 0
    for streamed, way in [
        (True, "environment"), (False, "environment"), (True, "profile"), (True, "profile beside keys"), (False, "instance"),
        (True, "web identity"), (True, "role"), (False, "container"), (True, "refused once"), (True, "key"), *((True, way) for way in MISSING),
    ]:
        requests = play(unfazed, streamed, way)
        for path, body in requests:
            judged += 1
            if found := problems(path, body):
                wrong += 1
                print(f"{way}: {json.dumps(body)}", *found, sep="\n  ")
        for name, content in ATTACHED.items():
            shown = [base64.b64encode(content).decode() in json.dumps(body) for _, body in requests]
            # Documents have rules of their own there.
            if not all(is_shown == (name == "photo.png") for is_shown in shown):
                sys.exit(f"{way}: {name} is in the requests: {shown}")
        if requests:
            # What was signed goes back as it came, in its place.
            replies = [message["content"] for message in requests[-1][1]["messages"] if message["role"] == "assistant"]
            if [reply for reply in replies] != [blocks for blocks, _ in ANSWERS[:2]]:
                sys.exit(f"{way}: the replies come back as {json.dumps(replies)}")
    if wrong:
        sys.exit(f"{wrong} of {judged} requests are wrong")
    print(f"{judged} requests are as botocore has them, and signed")


main()
