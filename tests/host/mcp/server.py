"""A server of the Model Context Protocol that does what its first argument says, well-behaved or not.

    server.py MODE [FILE]        over standard input and output
    server.py http|http-lists|sse-lists
                                 over HTTP on loopback, in JSON or as events; prints its address

FILE is where it notes what happened to it.
"""

import base64
import json
import os
import signal
import subprocess
import sys
import threading
import time

MODE = sys.argv[1]
NOTES = sys.argv[2] if len(sys.argv) > 2 else os.devnull
OBJECT = {"type": "object"}
HTTP = MODE.startswith(("http", "sse"))
lock, raw = threading.Lock(), threading.local()
grown = shrunk = mute = False


def note(text):
    with open(NOTES, "a") as file:
        file.write(text + "\n")


def tool(name, schema=None, **hints):
    return {"name": name, "description": f"It does {name}.", "inputSchema": schema or OBJECT, "annotations": hints}


def tools():
    text = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
    all_tools = [
        tool("echo", text, readOnlyHint=True),
        tool("write", text, idempotentHint=True),
        tool("send", text, destructiveHint=True),
        tool("plain"), tool("image"), tool("fail"), tool("die"), tool("slow"), tool("twice"), tool("huge"),
        tool("grow"), tool("shrink"), tool("bend"), tool("mixed"), tool("deep"), tool("odd"), tool("chat"),
        tool("broken", {"type": "objekt"}), tool("gone"), tool("bad"),
    ]
    if MODE.endswith("lists"):
        deep = OBJECT
        for _ in range(150):
            deep = {"type": "object", "properties": {"a": deep}}
        bare = tool("bare")
        del bare["inputSchema"]
        return [tool("half"), bare, tool("deep", deep), {**tool("long"), "description": "x" * 2_000_000},
                tool("lost"), tool("void"), {"name": 7}]
    if MODE.endswith("nameless"):
        return [tool("unread"), tool("anonymous"), tool("batch"), tool("echo", text), tool("babel")]
    if shrunk:
        all_tools = [kept for kept in all_tools if kept["name"] != "send"]
    return all_tools + ([tool("grown")] if grown else [])


def say(message):
    with lock:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def say_raw(line):
    if HTTP:
        raw.line = line
        return
    with lock:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


def chat(token):
    for step in range(10_000):
        said = {"progressToken": token, "progress": step, "message": "on and on"}
        say({"method": "notifications/progress", "params": said})
        time.sleep(0.005)


def text(said, **more):
    return {"content": [{"type": "text", "text": said}], **more}


def call(ident, params):
    global grown, shrunk, mute
    name, arguments = params["name"], params.get("arguments", {})
    if name == "echo":
        return text(arguments["text"])
    if name == "plain" and arguments.get("half"):
        return text("a\ud800b")
    if name == "plain":
        said = {"key": os.environ.get("OPENAI_API_KEY", "none"), "n": 1}
        return text(json.dumps(said), structuredContent=said)
    if name == "image":
        return {"content": [{"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}]}
    if name == "fail":
        return text("the disk is full", isError=True)
    if name == "gone":
        return text("MCP error -32602: Tool gone not found", isError=True)
    if name == "huge":
        return text("x" * int(arguments.get("bytes", 4_000_000)))
    if name == "die":
        print("something is wrong in here", file=sys.stderr, flush=True)
        os._exit(3)
    if name == "slow":
        token = params["_meta"]["progressToken"]
        said = {"progressToken": token, "progress": 3, "total": 10, "message": "copying"}
        say({"method": "notifications/progress", "params": said})
        note("begun")
        return None
    if name == "twice":
        say({"id": ident, "result": text("first")})
        return text("second")
    if name == "grow":
        grown, mute = True, arguments.get("mute", False)
        say({"method": "notifications/tools/list_changed"})
        return text("grown")
    if name == "shrink":
        shrunk = True
        say({"method": "notifications/tools/list_changed"})
        return text("shrunk")
    if name == "mixed":
        png = base64.b64encode(b"\x89PNG" + bytes(arguments.get("bytes", 4))).decode()
        return {"content": [
            {"type": "text", "text": "see:"},
            {"type": "image", "data": png, "mimeType": "image/png"},
            {"type": "resource", "resource": {"uri": "file:///a.txt", "text": "inside " + "a" * arguments.get("chars", 2)}},
            {"type": "resource", "resource": {"uri": "file:///b", "blob": "AAEC"}},
            {"type": "resource_link", "uri": "file:///c", "name": "c"},
        ], "structuredContent": {"a": [1]}}
    if name == "deep":
        say_raw('{"jsonrpc": "2.0", "id": %s, "result": {"content": [], "structuredContent": %s}}'
                % (json.dumps(ident), '{"a":' * 10_000 + "1" + "}" * 10_000))
        return None
    if name == "half":
        say_raw('{"jsonrpc": "2.0", "id": %s, "result": {"content": [{"type": "text", "te' % json.dumps(ident))
        return None
    if name == "lost":
        say_raw('{"jsonrpc": "2.0", "result": {"content": [{"type": "te')
        return None
    if name == "void":
        say_raw(json.dumps({"jsonrpc": "2.0", "id": ident}))
        return None
    if name == "unread":
        say_raw(json.dumps({"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "Parse error"}}))
        return None
    if name == "anonymous":
        say_raw(json.dumps({"jsonrpc": "2.0", "id": None, "result": text("whose?")}))
        return None
    if name == "batch":
        say_raw(json.dumps([{"jsonrpc": "2.0", "id": ident, "result": text("first")}]))
        return None
    if name == "babel":
        say_raw("the answer is 42")
        return None
    if name == "odd":
        return arguments["answer"]
    if name == "chat":
        token = params["_meta"]["progressToken"]
        threading.Thread(target=chat, args=(token,), daemon=True).start()
        return None
    if name == "bend":
        with lock:
            print("not json {", flush=True)
            print(json.dumps({"odd": True}), flush=True)
            print(b"\xff\xfe".decode("latin-1"), flush=True)
        return text("straight")
    return {"error": {"code": -32602, "message": f"Unknown tool: {name}"}}


def answer(message):
    global mute
    method, params = message.get("method"), message.get("params", {})
    if method == "initialize":
        if MODE == "nonsense":
            return 42
        if MODE == "hang":
            print("still thinking", file=sys.stderr, flush=True)
            return None
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {"listChanged": True}},
            "serverInfo": {"name": "hostile", "version": "1"},
        }
    if method == "tools/list":
        if MODE == "pages":
            number = int(params.get("cursor", 0))
            page = {"tools": [tool(f"t{number}")]}
            return {**page, "nextCursor": str(number + 1)} if number < 2 else page
        if MODE == "endless":
            return {"tools": [tool(f"t{time.monotonic_ns()}")], "nextCursor": "again"}
        if mute:
            mute = False
            note("asked")
            return None
        return {"tools": tools()}
    if method == "tools/call":
        return call(message["id"], params)
    if method == "notifications/cancelled":
        note("cancelled: " + str(params.get("reason")))
        return None
    return {"error": {"code": -32601, "message": f"no {method}"}} if "id" in message else None


def reply(message):
    result = answer(message)
    if result is None or "id" not in message:
        return None
    return {"id": message["id"], **(result if isinstance(result, dict) and "error" in result else {"result": result})}


def stdio():
    note(f"started {os.getpid()}")
    if MODE == "early":
        print("no licence", file=sys.stderr, flush=True)
        sys.exit(7)
    if MODE in ("fork", "deaf"):
        child = subprocess.Popen(["sleep", "1000"], stdout=sys.stdout)
        note(f"child {child.pid}")
    if MODE == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if MODE == "garbage":
        while True:
            sys.stdout.buffer.write(b"\xff\x00{[" * 10_000)
    if MODE == "babble":
        print("Welcome to the server!\n\nNow listening.", flush=True)
    for line in sys.stdin:
        said = reply(json.loads(line))
        if said is not None:
            say(said)
    if MODE == "deaf":
        note("input ended")
        time.sleep(1000)
    note("ended")


def http():
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("X-Key") != "sesame":
                return self.answer(401, None)
            raw.line = None
            said = reply(json.loads(body))
            said = raw.line if said is None else json.dumps({"jsonrpc": "2.0", **said})
            return self.answer(202 if said is None else 200, said)

        def do_GET(self):
            self.answer(405, None)

        do_DELETE = do_GET

        def answer(self, status, said):
            body = b"" if said is None else said.encode()
            kind = "application/json"
            if said is not None and MODE.startswith("sse"):
                body, kind = b": soon\r\n\r\nevent: message\r\ndata: " + body + b"\r\n\r\n", "text/event-stream"
            self.send_response(status)
            if said is not None:
                self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(f"http://127.0.0.1:{server.server_address[1]}/mcp", flush=True)
    server.serve_forever()


http() if HTTP else stdio()
