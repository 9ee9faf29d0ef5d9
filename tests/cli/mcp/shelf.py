"""A server of the Model Context Protocol that says in everything whose it is.

    shelf.py NAME NOTES HAS

HAS is JSON: the names of its `tools`, `prompts` and `resources` (addresses), each on a page of its own, its `templates`, and
`features`, which it announces besides. Tool `grow` adds a tool, or declares one with another `schema`, and says so unless `quietly`;
`ask` asks the client, `die` ends it, `doze` reads nothing until there is a file NOTES.NAME.go. NOTES is where it notes each line that it reads, after its name. It ends at once while there is a file NOTES.NAME.
With `hangs` it never answers a handshake, with `waits` it answers one when there is a file NOTES.NAME.go. It refuses to list its tools
while there is a file NOTES.NAME.mute. With `modern` it answers `server/discover`, refuses a handshake after that, and takes
subscriptions, which tool `hush` ends. With `token` it asks by that token how far its question is.
"""

import json
import os
import sys
import threading
import time

NAME, NOTES, HAS = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
tools = list(HAS.get("tools", []))
schemas = {}
asker = None
discovered = False
listeners = []
lock = threading.Lock()


def say(message):
    with lock:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def wait_to_go():
    while not os.path.exists(f"{NOTES}.{NAME}.go"):
        time.sleep(0.005)


def greet_later(message):
    wait_to_go()
    note("greets")
    say({"id": message["id"], "result": hello(message["params"])})


def hello(params):
    features = {"tools": {"listChanged": True}, **HAS.get("features", {})}
    version = HAS.get("version", params["protocolVersion"])
    return {"protocolVersion": version, "capabilities": features, "serverInfo": {"name": NAME, "version": "1"},
            "instructions": f"Use {NAME}."}


def of_subscription(ident):
    return {"_meta": {"io.modelcontextprotocol/subscriptionId": ident}}


def listen(ident, params):
    listeners.append(ident)
    params = {"notifications": params["notifications"], **of_subscription(ident)}
    say({"method": "notifications/subscriptions/acknowledged", "params": params})


def discover():
    global discovered
    discovered = True
    return {"supportedVersions": ["2026-07-28"], **hello({"protocolVersion": "2026-07-28"}), "resultType": "complete"}


def note(text):
    with open(NOTES, "a") as file:
        file.write(f"{NAME} {text}\n")


def page(params, key, items):
    at = int(params.get("cursor", 0))
    more = {"nextCursor": str(at + 1)} if at + 1 < len(items) else {}
    return {key: items[at:at + 1], **more}


def text(said):
    return {"content": [{"type": "text", "text": said}]}


def call(ident, name, params):
    global asker
    if name == "die":
        os._exit(3)
    if name == "grow":
        new = params["arguments"]
        tools.extend([] if new["tool"] in tools else [new["tool"]])
        schemas[new["tool"]] = new.get("schema", {"type": "object"})
        if not new.get("quietly"):
            for more in [{"params": of_subscription(ident)} for ident in listeners] or [{}]:
                say({"method": "notifications/tools/list_changed", **more})
    if name == "ask":
        asker = ident
        meta = {"_meta": {"progressToken": HAS["token"]}} if "token" in HAS else {}
        say({"id": "own", "method": "sampling/createMessage", "params": {"from": NAME, **meta}})
        return None
    if name == "hush":
        for ident in listeners:
            say({"id": ident, "result": of_subscription(ident)})
        listeners.clear()
    if name == "doze":
        wait_to_go()
    if name not in tools:
        return text(f"{NAME} has no {name}")
    return text(f"{NAME} ran {name}")


def answer(message):
    method, params = message["method"], message.get("params", {})
    if method == "server/discover" and HAS.get("modern"):
        return discover()
    if method == "subscriptions/listen" and HAS.get("modern"):
        return listen(message["id"], params)
    if method == "initialize" and discovered:
        return {"error": {"code": -32600, "message": "the connection began without a handshake"}}
    if method == "initialize" and HAS.get("hangs"):
        return None
    if method == "initialize" and HAS.get("waits"):
        threading.Thread(target=greet_later, args=(message,), daemon=True).start()
        return None
    if method == "initialize":
        return hello(params)
    if method == "tools/list" and os.path.exists(f"{NOTES}.{NAME}.mute"):
        return {"error": {"code": -32603, "message": f"{NAME} lists nothing"}}
    if method == "tools/list":
        listed = [{"name": name, "inputSchema": schemas.get(name, {"type": "object"})} for name in tools]
        return page(params, "tools", listed)
    if method == "tools/call":
        return call(message["id"], params["name"], params)
    if method == "prompts/list":
        return page(params, "prompts", [{"name": name} for name in HAS.get("prompts", [])])
    if method == "prompts/get":
        return {"messages": [], "description": f"{NAME} {params['name']}"}
    if method == "resources/list":
        return page(params, "resources", [{"uri": uri, "name": NAME} for uri in HAS.get("resources", [])])
    if method == "resources/templates/list":
        return page(params, "resourceTemplates", [{"uriTemplate": uri, "name": NAME} for uri in HAS.get("templates", [])])
    if method == "resources/read":
        known = params["uri"] in HAS.get("resources", []) + HAS.get("hidden", []) or HAS.get("templates")
        if not known:
            return {"error": {"code": -32002, "message": f"{NAME} has it not"}}
        return {"contents": [{"uri": params["uri"], "text": NAME}]}
    if method in ("resources/subscribe", "resources/unsubscribe", "logging/setLevel"):
        return {}
    if method in ("completion/complete", "tasks/list"):
        return {"of": NAME, "params": params}
    return {"error": {"code": -32601, "message": f"{NAME} does not know {method}"}}


if os.path.exists(f"{NOTES}.{NAME}"):
    sys.exit("it is locked")
note("started")
for line in sys.stdin:
    note(line.strip())
    message = json.loads(line)
    if message.get("id") == "own" and "method" not in message:
        say({"id": asker, "result": text(f"{NAME} got {json.dumps(message['result'])}")})
    elif "method" in message and "id" in message:
        result = answer(message)
        if result is not None:
            say({"id": message["id"], **(result if "error" in result else {"result": result})})
