"""A server that plays models, and the command that asks them."""

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ATTACHED = {"photo.png": b"\x89PNG\r\n\x1a\nphoto", "report.pdf": b"%PDF-1.7 report"}
KEY = "key-of-the-judge"


@dataclass
class Request:
    path: str
    headers: dict
    body: dict


class Models(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Otherwise the body waits for the other side to have the head.
    disable_nagle_algorithm = True

    def do_POST(self):
        raw = self.rfile.read(int(self.headers["content-length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        status, kind, data = self.server.reply(Request(self.path, headers, json.loads(raw)))
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    def handle_error(self, request, client_address):
        # Clients drop connections that they keep.
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


@contextlib.contextmanager
def serving(reply):
    """The address of a server that answers each request with what `reply` makes of it: status, kind and bytes."""
    server = Server(("127.0.0.1", 0), Models)
    server.reply = reply
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def run(unfazed, agent, policy, attached=()):
    """Runs an agent, with the files of these names beside its task; how it ended, and what is in its session."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in (("agent.yaml", {**agent, "policy": "policy.yaml"}), ("policy.yaml", policy)):
            # JSON is YAML.
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                json.dump({"version": 1, **text}, file)
        for name in attached:
            with open(os.path.join(folder, name), "wb") as file:
                file.write(ATTACHED[name])
        attach = [word for name in attached for word in ("--attach", name)]
        environment = {"PATH": os.environ["PATH"], "HOME": folder, "JUDGE_KEY": KEY, "AWS_EC2_METADATA_DISABLED": "true"}
        ended = subprocess.run(
            [unfazed, "run", "agent.yaml", *attach, "Say hello."],
            cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
        )
        return ended, kept(folder)


def kept(folder):
    return "".join(log.read_text("utf-8") for log in pathlib.Path(folder, ".unfazed").rglob("*.jsonl"))
