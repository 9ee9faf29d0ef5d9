"""A server of tools that speaks the Model Context Protocol: its one tool, `echo`, answers with the text and a picture."""

import base64
import json
import sys

PICTURE = b"\x89PNG\r\n\x1a\nof the tool"
TOOL = {"name": "echo", "description": "Repeats.", "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}}}


def answer(method, params):
    if method == "initialize":
        info = {"name": "picture", "version": "1"}
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": info}
    if method == "tools/list":
        return {"tools": [TOOL]}
    if method == "tools/call":
        picture = {"type": "image", "data": base64.b64encode(PICTURE).decode(), "mimeType": "image/png"}
        return {"content": [{"type": "text", "text": params["arguments"].get("text", "nothing")}, picture]}
    return None


def main():
    for line in sys.stdin:
        asked = json.loads(line)
        if "id" in asked:
            said = answer(asked["method"], asked.get("params", {}))
            end = {"error": {"code": -32601, "message": "Method not found"}} if said is None else {"result": said}
            print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **end}), flush=True)


if __name__ == "__main__":
    main()
