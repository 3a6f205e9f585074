"""A client that this package does not make; it runs in an environment with one of three packages.

The arguments are the package, `stdio` or `http`, and a command or an address. It prints what it saw as JSON: the names
of the tools, the texts of some calls, and what the server asked.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import sys
from contextlib import AsyncExitStack
from typing import Any

CALLS: list[tuple[str, dict[str, Any]]] = [("add", {"a": 1, "b": 2}), ("remove", {"name": "x"}), ("fail", {})]
PACKAGE, WAY, *ADDRESS = sys.argv[1:]
asked: list[str] = []


async def use_fastmcp() -> tuple[list[str], list[str]]:
    """Use the client of FastMCP."""
    server = {"command": ADDRESS[0], "args": ADDRESS[1:], "env": {"PYTHONPATH": os.environ["PYTHONPATH"]}}
    address: Any = {"mcpServers": {"it": server}} if WAY == "stdio" else ADDRESS[0]

    async def answer(message: str, *_: Any) -> dict[str, Any]:
        asked.append(message)
        return {"approve": True}

    async with importlib.import_module("fastmcp").Client(address, elicitation_handler=answer) as client:
        names = [tool.name for tool in await client.list_tools()]
        results = [await client.call_tool(*each, raise_on_error=False) for each in CALLS]
    return names, [result.content[0].text for result in results]


async def use_old_mcp() -> tuple[list[str], list[str]]:
    """Use the client of an earlier version of the mcp package."""
    mcp, stdio = importlib.import_module("mcp"), importlib.import_module("mcp.client.stdio")
    http = importlib.import_module("mcp.client.streamable_http")

    async def answer(_: Any, params: Any) -> Any:
        asked.append(params.message)
        return importlib.import_module("mcp.types").ElicitResult(action="accept", content={"approve": True})

    async with AsyncExitStack() as stack:
        if WAY == "stdio":
            env = {"PYTHONPATH": os.environ["PYTHONPATH"]}
            command = mcp.StdioServerParameters(command=ADDRESS[0], args=ADDRESS[1:], env=env)
            streams = await stack.enter_async_context(stdio.stdio_client(command))
        else:
            streams = await stack.enter_async_context(http.streamablehttp_client(ADDRESS[0]))
        client = await stack.enter_async_context(mcp.ClientSession(*streams[:2], elicitation_callback=answer))
        await client.initialize()
        names = [tool.name for tool in (await client.list_tools()).tools]
        results = [await client.call_tool(*each) for each in CALLS]
        return names, [result.content[0].text for result in results]


async def use_toolbox_core() -> tuple[list[str], list[str]]:
    """Use a client with an implementation of its own, which asks nobody."""
    address = ADDRESS[0].removesuffix("/mcp")
    async with importlib.import_module("toolbox_core").ToolboxClient(address) as client:
        tools = {tool.__name__: tool for tool in await client.load_toolset()}
        return [*tools], [str(await tools[name](**values)) for name, values in CALLS]


USES = {"fastmcp": use_fastmcp, "mcp": use_old_mcp, "toolbox-core": use_toolbox_core}
names, texts = asyncio.run(USES[PACKAGE]())
sys.stdout.write(json.dumps([names, texts, asked]) + "\n")
