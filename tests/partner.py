"""A partner on a free port of this machine, as the judges start and ask it."""

import json
import socket
import subprocess
import time
import urllib.request


def call(base, method, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(base + path, data=data, method=method, headers={"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.loads(answer.read())


def serve(command, ready):
    """Starts what `command` makes of a port, and waits until it answers at the path `ready`."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = command(port)
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    base = f"http://127.0.0.1:{port}"
    for _ in range(300):
        try:
            call(base, "GET", ready)
            return server, base
        except OSError:
            time.sleep(0.1)
    server.kill()
    raise SystemExit(f"{command[0]} does not answer")
