"""A server of HTTP that answers as it is told, and remembers what it was asked."""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Answer:
    """An answer. `lost`: what was asked is done, and the connection ends without one."""

    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    lost: bool = False


@dataclass
class Request:
    path: str
    headers: dict[str, str]
    body: Any
    at: float


class FaultyServer:
    """Answers each path by its list, and by the last of the list from then on."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self._answers: dict[str, deque[Answer]] = {}
        self._lock = threading.Lock()
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                length = int(self.headers.get("content-length") or 0)
                text = self.rfile.read(length)
                request = Request(self.path, dict(self.headers), json.loads(text or "null"), time.monotonic())
                answer = server._take(request)
                if answer.lost:
                    self.close_connection = True
                    return
                body = json.dumps(answer.body).encode()
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        class Server(ThreadingHTTPServer):
            request_queue_size = 128
            daemon_threads = True

        self._http = Server(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def answers(self, path: str, *answers: Answer) -> None:
        self._answers[path] = deque(answers)

    def asked(self, path: str) -> list[Request]:
        return [request for request in self.requests if request.path == path]

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def _take(self, request: Request) -> Answer:
        with self._lock:
            self.requests.append(request)
            answers = self._answers.get(request.path)
            if not answers:
                return Answer(404, {"error": {"message": f"there is no {request.path}"}})
            return answers.popleft() if len(answers) > 1 else answers[0]
