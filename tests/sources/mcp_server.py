"""A server made with the `mcp` package, for tests: over standard input and output, or in the process of a test."""

from __future__ import annotations

import base64
import logging
import os
from typing import Any

import anyio
from mcp.server import Server
from mcp.server.mcpserver import Context, MCPServer
from mcp_types import (
    AudioContent,
    BlobResourceContents,
    CallToolRequestParams,
    CallToolResult,
    CreateMessageRequest,
    CreateMessageRequestParams,
    ElicitRequest,
    ElicitRequestFormParams,
    EmbeddedResource,
    ImageContent,
    InputRequest,
    InputRequiredResult,
    ListToolsResult,
    ResourceLink,
    SamplingMessage,
    TextContent,
    TextResourceContents,
    Tool,
    ToolAnnotations,
)

PNG = base64.b64encode(b"\x89PNG\r\n").decode()


def make_server() -> MCPServer:  # noqa: C901  twelve tools
    """Make the server; each has its own state."""
    server, cancelled = MCPServer("a name of its own"), list[str]()

    @server.tool(title="Addition", annotations=ToolAnnotations(read_only_hint=True))
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @server.tool(annotations=ToolAnnotations(title="Removal", destructive_hint=True))
    def remove(path: str) -> str:
        return f"removed {path}"

    @server.tool()
    def fail() -> CallToolResult:
        """Fail."""
        return CallToolResult(content=[TextContent(text="no such city")], is_error=True)

    @server.tool()
    async def work(ctx: Context) -> str:
        """Report progress."""
        for step in range(3):
            await ctx.report_progress(step, 3, f"step {step}")
        await ctx.report_progress(3, 3)
        await ctx.log("info", "almost there")
        await anyio.sleep(0.05)
        return "done"

    @server.tool()
    async def wait(ctx: Context) -> str:
        """Wait until it is cancelled."""
        await ctx.report_progress(0, None, "waiting")
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.append("wait")
        return ""

    @server.tool()
    def list_cancelled() -> list[str]:
        """List the calls that were cancelled."""
        return cancelled

    @server.tool()
    def show() -> CallToolResult:
        """Return every kind of content."""
        blob = BlobResourceContents(uri="file:///a/b%20c.pdf", mime_type="application/pdf", blob=PNG)
        text = TextResourceContents(uri="file:///notes.txt", text="the notes")
        return CallToolResult(
            content=[
                TextContent(text="look"),
                ImageContent(data=PNG, mime_type="image/png"),
                ImageContent(data="no base64", mime_type="image/png"),
                AudioContent(data=PNG, mime_type="audio/wav"),
                EmbeddedResource(resource=text),
                EmbeddedResource(resource=blob),
                ResourceLink(name="manual", uri="http://127.0.0.1:9/manual"),
            ]
        )

    @server.tool()
    def get_variable(name: str) -> str:
        """Return an environment variable of the server."""
        return os.environ.get(name, "")

    @server.tool()
    async def grow(ctx: Context) -> str:
        """Add a tool."""

        def late() -> str:
            """Return a text."""
            return "late"

        server.add_tool(late)
        await ctx.notify_tools_changed()
        return "grown"

    return server


AGE = {"type": "object", "properties": {"years": {"type": "integer"}}}
QUESTION = ElicitRequest(params=ElicitRequestFormParams(message="How old are you?", requested_schema=AGE))
SAMPLE = CreateMessageRequest(
    params=CreateMessageRequestParams(
        messages=[SamplingMessage(role="user", content=TextContent(text="Which colour?"))],
        system_prompt="Be brief.",
        max_tokens=2,
    )
)


def make_asking_server(*requests: InputRequest) -> Server[Any]:
    """Make a server whose one tool asks, in the way of the newest version of the protocol; for an age by default."""
    questions = {f"{number}": each for number, each in enumerate(requests or [QUESTION])}

    async def list_tools(_: Any, __: Any) -> ListToolsResult:
        return ListToolsResult(tools=[Tool(name="ask", input_schema={"type": "object"})])

    async def call_tool(_: Any, params: CallToolRequestParams) -> CallToolResult | InputRequiredResult:
        if not params.input_responses:
            return InputRequiredResult(input_requests=questions, request_state="asked")
        answers: Any = params.input_responses.values()
        texts = [getattr(each.content, "text", None) or f"{each.action} {each.content}" for each in answers]
        return CallToolResult(content=[TextContent(text="; ".join(texts))])

    return Server("asking", on_list_tools=list_tools, on_call_tool=call_tool)


if __name__ == "__main__":
    logging.disable()
    make_server().run()
