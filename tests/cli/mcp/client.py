"""The official client in Python, which talks to the servers it is given through the relay, and without it.

    client.py UNFAZED POLICY SERVER...

Prints what differs, and ends with 1 if anything does.
"""

import asyncio
import json
import sys

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client


def plain(value):
    return value.model_dump(mode="json", by_alias=True, exclude_none=True)


async def asked(work):
    try:
        return plain(await work)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


async def look(command):
    """All that a server has, and what its harmless tools answer."""
    seen = {}
    server = StdioServerParameters(command=command[0], args=command[1:])
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        hello = plain(await session.initialize())
        # The relay has resources of its own.
        hello["capabilities"].pop("resources", None)
        # A server that is started again may have other tools.
        hello["capabilities"].get("tools", {}).pop("listChanged", None)
        seen["initialize"] = hello
        listed = plain(await session.list_tools())
        seen["tools"] = listed
        seen["prompts"] = await asked(session.list_prompts())
        if hello["capabilities"].get("logging") is not None:
            seen["level"] = await asked(session.set_logging_level("error"))
        names = [tool["name"] for tool in listed["tools"]]
        calls = {
            "echo": {"message": "hello"},
            "get-structured-content": {"location": "New York"},
            "get-tiny-image": {},
            "get-annotated-message": {"messageType": "success", "includeImage": True},
            "get-resource-links": {"count": 2},
            "convert_time": {"source_timezone": "UTC", "time": "12:00", "target_timezone": "UTC"},
            "list_allowed_directories": {},
            "read_graph": {},
            "git_status": {"repo_path": command[-1]},
        }
        for name in names:
            if name in calls:
                seen[name] = await asked(session.call_tool(name, calls[name]))
        if "echo" in names:
            many = [session.call_tool("echo", {"message": f"m{n}"}) for n in range(100)]
            seen["many"] = [plain(result)["content"][0]["text"] for result in await asyncio.gather(*many)]
    return seen


async def main():
    unfazed, policy, server = sys.argv[1], sys.argv[2], sys.argv[3:]
    bare = await look(server)
    relayed = await look([unfazed, "mcp", "--policy", policy, "--", *server])
    for key in bare:
        if bare[key] != relayed.get(key):
            print(f"{key}:\n  {json.dumps(bare[key])[:2000]}\n  {json.dumps(relayed.get(key))[:2000]}")
    print(f"compared: {', '.join(bare)}")
    sys.exit(bare != relayed)


asyncio.run(main())
