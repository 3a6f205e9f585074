"""The wire formats of providers: how tools, calls and results are written for a model, and read back.

A dialect works both ways and does no I/O. `render_tool` writes a tool for a provider, `parse_calls` reads the calls
in a reply, `render_results` writes the messages that answer them. A dialect may send another schema than a tool's own;
the calls that come back are then decoded, so that a tool always gets arguments of its own schema. `toolkit.models`
sends the requests.

Files, each importing only those below it:

    catalog      the dialects by name
    responses    OpenAI's Responses: tools, calls, and conversations as items
    calls        one JSON object that lists calls, for models without tool calling
    chat         OpenAI's Chat Completions: tools, calls, and messages in both directions
    anthropic    Anthropic's Messages
    gemini       Google's Gemini: generateContent and Interactions
    mcp          the Model Context Protocol
    tool_choice  the tools that a model may call, and whether it must call one
    base         the base classes of dialects, and the explanation of a tool's schema in one
    strict/      a schema rewritten for a provider without loss, and its arguments decoded
"""
