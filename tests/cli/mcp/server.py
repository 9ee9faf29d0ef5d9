"""A server of the Model Context Protocol whose tools fail as their names say.

    server.py FILE [MODE]

FILE is where it notes each line that it reads, after `in  `. What it answers to methods that it does not know is odd on
purpose: a relay passes it on as it is. MODE `again` has other tools when it is started once more; `mute` never answers a
handshake; `resources` has resources; `odd` has tools whose answers are rare; `unlisted` never answers a request for its tools; `slow` takes a second for its first list of tools, and for a
handshake when it is started once more. The method `die` ends it.
"""

import json
import os
import signal
import sys
import threading
import time

NOTES, MODE = sys.argv[1], (sys.argv[2:] or ["plain"])[0]
AGAIN = os.path.exists(NOTES)
OBJECT = {"type": "object"}
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
# What a server logs that should not, and a notification with a byte that is no UTF-8.
LOGGED = [
    b'{"error":"cache miss","level":"warn"}', b'{"id":null,"error":"slow","level":"warn"}', b'{"id":3,"error":"slow"}',
    b'{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"unknown notification"}}',
    b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"caf\xe9"}}',
]
seen = {}
lock = threading.Lock()


def note(text):
    with open(NOTES, "a") as file:
        file.write(text + "\n")


def raw(line):
    with lock:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


def say(message):
    raw(json.dumps({"jsonrpc": "2.0", **message}))


def tool(name, schema=OBJECT, **more):
    return {"name": name, "inputSchema": schema, **more}


def tools():
    look = {"readOnlyHint": True}
    listed = [
        tool("flaky", TEXT, annotations=look), tool("send", TEXT, annotations={"destructiveHint": True}),
        tool("echo", TEXT, annotations=look), tool("die"), tool("big", annotations=look),
        tool("picture", annotations=look), tool("table", annotations=look, outputSchema=OBJECT), tool("slow"),
        tool("refuse"), tool("ask"), tool("deaf"), tool("broken", {"type": "objekt"}), tool("task"), tool("new.kind"),
        tool("half"), tool("huge", annotations=look),
    ]
    if MODE == "odd":
        listed += [tool("receipt"), tool("consent"), tool("crash"), tool("wrapped", outputSchema=OBJECT), tool("multi"),
                   tool("bare"), tool("loud"), tool("report")]
    return listed + ([tool("late")] if MODE == "again" and AGAIN else [])


def text(said, **more):
    return {"content": [{"type": "text", "text": said}], **more}


def call(ident, params):
    name, arguments = params["name"], params.get("arguments", {})
    seen[name] = seen.get(name, 0) + 1
    token = params.get("_meta", {}).get("progressToken")
    if name == "echo":
        return text(arguments["text"])
    if name == "flaky":
        if token is not None:
            say({"method": "notifications/progress", "params": {"progressToken": token, "progress": 4, "total": 10}})
        return text("found") if seen[name] % 3 == 0 else text("the disk is full", isError=True)
    if name == "send":
        return text("the line is bad", isError=True)
    if name == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if name == "big":
        return text("0123456789" * 20_000, _meta={"kept": 1})
    if name == "picture":
        image = {"type": "image", "data": "AAEC", "mimeType": "image/png"}
        return {"content": [{"type": "text", "text": "x" * 3000}, image], "structuredContent": {"n": 1}}
    if name == "table":
        return text("y" * 3000, structuredContent={"n": 1.50})
    if name == "refuse":
        return {"error": {"code": -32602, "message": "no such thing"}}
    if name == "receipt":
        return {"error": {"code": arguments["code"], "message": arguments["message"]}}
    if name == "consent":
        page = {"mode": "url", "url": "https://example.org/consent", "elicitationId": "e1", "message": "Agree"}
        return {"error": {"code": -32042, "message": "agree first", "data": {"elicitations": [page], "x": 1.50}}}
    if name == "crash":
        gone = "the page is gone" + "!" * arguments.get("bytes", 0)
        blocks = [{"type": "text", "text": gone}, {"type": "image", "data": "AAEC", "mimeType": "image/png"},
                  {"type": "resource_link", "uri": "file:///trace.zip", "name": "trace"}]
        return {"isError": True, "content": blocks, "structuredContent": {"code": 7}, "_meta": {"x/y": 1}}
    if name == "wrapped":
        lines = "a \"line\"\n" * 500
        return text(lines, structuredContent={"result": lines})
    if name == "loud":
        with lock:
            for line in LOGGED:
                sys.stdout.buffer.write(line + b"\n")
            sys.stdout.buffer.flush()
        time.sleep(0.1)
        return text("fine")
    if name == "report":
        held = {"uri": "file:///a.bin", "blob": "AAEC"}
        blocks = [{"type": "text", "text": "a long story " * 500}, {"type": "resource", "resource": held},
                  {"type": "resource_link", "uri": "file:///b", "name": "b"}]
        only_text = arguments.get("text")
        return {"content": blocks[:1] if only_text else blocks, "structuredContent": {"rows": 2}}
    if name == "bare":
        return {"isError": True}
    if name == "multi":
        step = int(params.get("requestState") or 0)
        if step == 6:
            return text("done", resultType="complete")
        form = {"mode": "form", "message": f"step {step}", "requestedSchema": OBJECT}
        questions = {"q": {"method": "elicitation/create", "params": form}}
        return {"resultType": "input_required", "requestState": str(step + 1), "inputRequests": questions}
    if name == "half":
        raw('{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"a\\ud800b"}],"isError":%s}}'
            % (ident, json.dumps(bool(arguments.get("fails")))))
        return None
    if name == "huge":
        return text("x" * 9_000_000)
    if name == "task":
        return {"task": {"taskId": "7", "status": "working"}}
    if name == "new.kind":
        return {"content": [{"type": "hologram", "data": "AAEC"}], "later": True}
    if name == "deaf":
        os.close(0)
        say({"id": ident, "result": text("no more")})
        time.sleep(1000)
    if name == "slow":
        return None
    if name == "ask":
        say({"id": "s-1", "method": "sampling/createMessage", "params": {"messages": []}})
        seen["asker"] = ident
        return None
    return {"error": {"code": -32602, "message": f"Unknown tool: {name}"}}


def answer(message):
    method, params = message.get("method"), message.get("params", {})
    if method == "initialize":
        if MODE == "slow" and AGAIN:
            time.sleep(1)
        capabilities = {"tools": {} if MODE == "odd" else {"listChanged": True}}
        if MODE == "resources":
            capabilities["resources"] = {"subscribe": True}
        info = {"name": "flaky", "version": "1", "unknown": [1.0]}
        version = params["protocolVersion"]
        return None if MODE == "mute" else {"protocolVersion": version, "capabilities": capabilities, "serverInfo": info}
    if method == "tools/list" and MODE == "unlisted":
        return None
    if method == "tools/list":
        if MODE == "slow" and not AGAIN and not seen.get("listed"):
            seen["listed"] = 1
            time.sleep(1)
        return {"tools": tools()}
    if method == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if method == "tools/call":
        return call(message["id"], params)
    if method is None and message.get("id") == "s-1":
        say({"id": seen["asker"], "result": text(json.dumps(message["result"]))})
        return None
    if "id" in message:
        raw('{ "later":[1.50,1e3], "id": %s,"jsonrpc":"2.0","result" :{"n":123456789012345678901234567890,"a":"\\u00e9"}}'
            % json.dumps(message["id"]))
        raw('{"method":"notifications/new","jsonrpc":"2.0","params":{"x" : 1.0}}')
    return None


note(f"started {os.getpid()}")
for line in sys.stdin:
    note("in  " + line.rstrip("\n"))
    message = json.loads(line)
    result = answer(message)
    if result is not None:
        say({"id": message["id"], **(result if "error" in result else {"result": result})})
note("ended")
