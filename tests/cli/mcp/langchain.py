"""LangChain's client, whose calls go through the relay: one that is retried, and one that the policy refuses.

    langchain.py UNFAZED SERVER NOTES

SERVER is `server.py`. Ends with an error if LangChain sees anything else.
"""

import asyncio
import json
import sys
import tempfile
from pathlib import Path

from langchain_core.tools import ToolException
from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_mcp_adapters.tools import load_mcp_tools

POLICY = """version: 1
tools:
  flaky:
    retry: {max_attempts: 3, retry_on: {add: [execution_error]}, backoff: {kind: constant, delay: 10ms, jitter: none}}
  send: {approval: always}
"""


def text(result):
    """The text of a result, which versions of LangChain give as it is, or in blocks."""
    return result if isinstance(result, str) else "".join(block["text"] for block in result if block["type"] == "text")


async def main(unfazed, server, notes):
    with tempfile.TemporaryDirectory() as folder:
        policy = Path(folder) / "p.yaml"
        policy.write_text(POLICY)
        args = ["mcp", "--policy", str(policy), "--", "python3", server, notes]
        client = MultiServerMCPClient({"flaky": {"transport": "stdio", "command": unfazed, "args": args}})
        async with client.session("flaky") as session:
            tools = {tool.name: tool for tool in await load_mcp_tools(session)}
            assert {"flaky", "send", "echo"} <= tools.keys(), tools.keys()
            assert text(await tools["echo"].ainvoke({"text": "a"})) == "a"
            assert text(await tools["flaky"].ainvoke({"text": "a"})) == "found"
            try:
                refused = text(await tools["send"].ainvoke({"text": "a"}))
            except ToolException as error:
                refused = str(error)
            assert "`send`" in refused, refused
    read = [json.loads(note.removeprefix("in  ")) for note in Path(notes).read_text().splitlines() if note.startswith("in  ")]
    called = [message["params"]["name"] for message in read if message.get("method") == "tools/call"]
    assert called == ["echo", "flaky", "flaky", "flaky"], called


asyncio.run(main(*sys.argv[1:]))
