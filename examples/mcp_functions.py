"""Serve functions to an MCP client, and call them from the client of the `mcp` package.

Prints what the client sees and gets. `toolkit serve examples/mcp_functions.py` starts the server. The functions are
plain Python. Needs an extra: pip install "function-toolkit[mcp]".
"""

import asyncio
import sys

from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from toolkit import ToolError, tool

PRICES = {"rake": 12.5, "spade": 20.0}


@tool(effect="read")
def find_price(article: str) -> float:
    """Find the price of an article, in EUR."""
    if article not in PRICES:
        raise ToolError(f"There is no {article}; there are: {', '.join(PRICES)}.")
    return PRICES[article]


@tool(effect="write")
def set_price(article: str, price: float) -> str:
    """Set the price of an article, in EUR."""
    PRICES[article] = price
    return f"{article}: {price:g} EUR"


async def main() -> None:
    """Be the client: list the tools, and call them."""
    command = StdioServerParameters(command=sys.executable, args=["-m", "toolkit", "serve", __file__])
    async with Client(stdio_client(command)) as client:
        for listed in (await client.list_tools()).tools:
            hints = listed.annotations and listed.annotations.model_dump(exclude_none=True)
            print(listed.name, hints, listed.description)
        for name, arguments in (
            ("set_price", {"article": "hoe", "price": 9}),
            ("find_price", {"article": "hoe"}),
            ("find_price", {"article": "saw"}),
        ):
            result = await client.call_tool(name, arguments)
            print(name, "error" if result.is_error else "->", getattr(result.content[0], "text", ""))


if __name__ == "__main__":
    asyncio.run(main())
