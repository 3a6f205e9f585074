"""A toolbox: tools shown to providers, and calls carried out by name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from pydantic_core import from_json, to_json

from toolkit._concurrency.async_backend import AsyncDoor
from toolkit._concurrency.backend import Door, step
from toolkit._concurrency.cancellation import Cancellation
from toolkit._concurrency.sync_backend import SyncDoor
from toolkit._context import ToolContext
from toolkit._dialects import dialect_named
from toolkit._dialects.base import Dialect
from toolkit._dialects.calls import Calls, composed, parsed
from toolkit._execution.dispatcher import Dispatcher
from toolkit._execution.parallel import Callings, ended, succeeded
from toolkit._execution.references import refers
from toolkit._messages import ToolCall, ToolResult
from toolkit._schema.arguments import Words
from toolkit._schema.json_text import as_text, doubts, unfenced
from toolkit._tools.check import Report, checked
from toolkit._tools.shared_values import Shared, Values
from toolkit.collection import Addable, Collection, activity_of
from toolkit.errors import ToolError


class Toolbox(Collection):
    """Tools by name. A plain function that is put in becomes a tool.

    Args:
        tools: Tools and functions.
        strict: Whether providers are to enforce the schemas of tools that do not say so themselves, where that is
            lossless.
        references: Whether calls may refer to the results of others: `_outputPath` says where a result is kept, and an
            argument `†path` stands for it.

    Raises:
        DuplicateToolError: Two of them have one name.

    Example:
        >>> def add(a: int, b: int) -> int:
        ...     '''Add two numbers.'''
        ...     return a + b
        >>> box = Toolbox([add])
        >>> box.call("add", '{"a": 1, "b": 2}').value
        3
    """

    def __init__(self, tools: Iterable[Addable] = (), *, strict: bool | None = None, references: bool = False) -> None:
        super().__init__(tools, strict=strict, references=references)
        self._shown: tuple[object, dict[tuple[str, bool], list[dict[str, Any]]]] = (None, {})

    def schemas(self, dialect: str = "chat", *, strict: bool | None = None) -> list[dict[str, Any]]:
        """Show the tools as a provider wants them. The schemas are kept: read them, do not change them.

        Args:
            dialect: "chat", "responses", "anthropic", "gemini", "mcp", "minimal" or "calls".
            strict: Whether the provider is to enforce them; the toolbox's own setting, or else False, by default. What
                comes back then has another form than the tools' own: `answer` reads it.

        Raises:
            ValueError: There is no such dialect.
            DefinitionError: A tool cannot be described to a model, or to this provider.
        """
        key, tools = (dialect, self._enforced(strict)), self._composed()
        if self._shown[0] is not tools:
            self._shown = tools, {}
        kept = self._shown[1]
        if key not in kept:
            show = dialect_named(dialect, strict=key[1]).tool
            kept[key] = from_json(to_json([show(made.spec) for made in tools.values()]))  # this toolbox's own
        return list(kept[key])

    def check(self, dialect: str = "chat") -> Report:
        """Look for what a model or its provider may stumble over: names, missing texts, size, what is left out."""
        return checked(self, dialect_named(dialect, strict=self._enforced()), self._bindings)

    def answer(
        self,
        reply: Any,
        dialect: str = "chat",
        *,
        strict: bool | None = None,
        context: ToolContext[Any] | None = None,
        shared: Values = None,
    ) -> list[dict[str, Any]]:
        """Carry out the calls in a provider's reply, all at the same time, for a loop of your own.

        Args:
            reply: What the provider's client returned, or the same as plain data.
            dialect: As for `schemas`.
            strict: As for `schemas`.
            context: What a parameter annotated ToolContext gets.
            shared: As for `all`; one Shared for all replies keeps the results of each for those that follow.

        Returns:
            The messages that answer the calls, each exactly once; none where there are no calls.
        """
        spoken, shares = dialect_named(dialect, strict=self._enforced(strict)), Shared.of(shared)
        return step(self._answer(reply, spoken, context, SyncDoor(), shares))

    async def aanswer(
        self,
        reply: Any,
        dialect: str = "chat",
        *,
        strict: bool | None = None,
        context: ToolContext[Any] | None = None,
        shared: Values = None,
    ) -> list[dict[str, Any]]:
        """Do what `answer` does, in the running loop."""
        spoken, shares = dialect_named(dialect, strict=self._enforced(strict)), Shared.of(shared)
        return await self._answer(reply, spoken, context, AsyncDoor(), shares)

    def call(
        self, name: str, words: Words = "{}", context: ToolContext[Any] | None = None, *, shared: Values = None
    ) -> ToolResult:
        """Carry out a call by name; a tool's fault is a result, not an exception.

        Args:
            name: The tool's, as the model wrote it.
            words: The arguments, as the model wrote them.
            context: What a parameter annotated ToolContext gets.
            shared: As for `all`.

        Raises:
            FatalError: The tool raised it.
            DefinitionError: The tool cannot be described to a model.
        """
        return step(self._carry_out(name, words, context, SyncDoor(), shared))

    async def acall(
        self, name: str, words: Words = "{}", context: ToolContext[Any] | None = None, *, shared: Values = None
    ) -> ToolResult:
        """Carry out a call by name in the running loop; a sync tool gets a thread of its own."""
        own = context or ToolContext(deps=None)
        with Cancellation(parent=own.cancellation) as left:
            return await self._carry_out(name, words, replace(own, cancellation=left), AsyncDoor(), shared)

    def calls_schema(self, *, strict: bool | None = None) -> dict[str, Any]:
        """Compose the schema of a reply that lists calls, for a model or a server without tool calling.

        An object whose `calls` are each of one tool: `_tool` and `_activity` as constants and what else is said about a
        call in front, its arguments behind; and whose `output` is the answer, where there are no calls.

        Args:
            strict: Whether to write it so that OpenAI enforces it; as for `schemas`.

        Raises:
            DefinitionError: A tool cannot be described to a model.
        """
        specs = [replace(made.spec, activity=activity_of(made)) for made in self]
        schema: dict[str, Any] = from_json(to_json(composed(specs, dialect=Calls(self._enforced(strict)))))
        return schema

    def parse_calls(self, text: Words, *, strict: bool | None = None) -> tuple[ToolCall, ...]:
        """Read a reply of the schema that `calls_schema` makes; `run` and `all` carry out what is in it.

        Args:
            text: The reply, be it in a Markdown fence; or the object, where something else has read the text.
            strict: As for the schema.

        Raises:
            ToolError: It is no such reply, or readers of JSON disagree about it; the text is for the model.
        """
        reply = unfenced(as_text(text))
        if parsed(reply) is None:
            raise ToolError('Invalid reply: it is no JSON object with a list "calls". Send one whole object.')
        if doubt := doubts(reply):
            raise ToolError(f"Invalid reply: {doubt}. Send one JSON object with each key once.")
        return Calls(self._enforced(strict)).calls(reply, [made.spec for made in self])

    def run(self, call: ToolCall, context: ToolContext[Any] | None = None, *, shared: Values = None) -> ToolResult:
        """Carry out a call that was made, or kept, as data; a tool's fault is a result, as in `call`."""
        return step(self._callings(context, SyncDoor(), shared).one(call))

    async def arun(
        self, call: ToolCall, context: ToolContext[Any] | None = None, *, shared: Values = None
    ) -> ToolResult:
        """Do what `run` does, in the running loop."""
        return await self._callings(context, AsyncDoor(), shared).one(call)

    def all(
        self, calls: Iterable[ToolCall], context: ToolContext[Any] | None = None, *, shared: Values = None
    ) -> list[ToolResult]:
        """Carry calls out at the same time; the results, failures too, in the order of the calls.

        Where the toolbox has `references`, a call waits for those whose results it refers to.

        Args:
            calls: Of tools in this toolbox, or of none.
            context: What a parameter annotated ToolContext gets.
            shared: Values by dotted path, which calls may refer to and find in their context. In a Shared, results are
                kept for later calls, too.

        Raises:
            FatalError: A tool raised it.
            ValueError: A value is no JSON.
        """
        return step(self._callings(context, SyncDoor(), shared).all(calls))

    async def aall(
        self, calls: Iterable[ToolCall], context: ToolContext[Any] | None = None, *, shared: Values = None
    ) -> list[ToolResult]:
        """Do what `all` does, in the running loop."""
        return await self._callings(context, AsyncDoor(), shared).all(calls)

    def any(
        self, calls: Iterable[ToolCall], context: ToolContext[Any] | None = None, *, shared: Values = None
    ) -> ToolResult:
        """Carry calls out until one succeeds, and give the others up; an error that has all of theirs, if none does."""
        return step(self._callings(context, SyncDoor(), shared).first(calls, succeeded))

    async def aany(
        self, calls: Iterable[ToolCall], context: ToolContext[Any] | None = None, *, shared: Values = None
    ) -> ToolResult:
        """Do what `any` does, in the running loop."""
        return await self._callings(context, AsyncDoor(), shared).first(calls, succeeded)

    def race(
        self, calls: Iterable[ToolCall], context: ToolContext[Any] | None = None, *, shared: Values = None
    ) -> ToolResult:
        """Carry calls out until one ends, well or not, and give the others up."""
        return step(self._callings(context, SyncDoor(), shared).first(calls, ended))

    async def arace(
        self, calls: Iterable[ToolCall], context: ToolContext[Any] | None = None, *, shared: Values = None
    ) -> ToolResult:
        """Do what `race` does, in the running loop."""
        return await self._callings(context, AsyncDoor(), shared).first(calls, ended)

    def _enforced(self, *wanted: bool | None) -> bool:
        return next((said for said in (*wanted, self.strict) if said is not None), False)

    async def _answer(
        self, reply: Any, dialect: Dialect, context: ToolContext[Any] | None, door: Door, shared: Shared
    ) -> list[dict[str, Any]]:
        specs = [made.spec for made in self]
        calls = dialect.calls(reply, specs)
        results = await self._callings(context, door, shared).all(calls)
        return dialect.answers([*zip(calls, results)], specs)

    def _callings(self, context: ToolContext[Any] | None, door: Door, shared: Values) -> Callings:
        own = context or ToolContext(deps=None)
        return Callings(Dispatcher(tools=self._composed()), own, door, Shared.of(shared))

    async def _carry_out(
        self, name: str, words: Words, context: ToolContext[Any] | None, door: Door, shared: Values
    ) -> ToolResult:
        call, tools = ToolCall(name=name, arguments=as_text(words)), self._composed()
        if shared is not None or refers(tools.get(name)):
            return await self._callings(context, door, shared).one(call)
        own = replace(context, tool_name=name) if context else ToolContext(deps=None, tool_name=name)
        return await Dispatcher(tools=tools).dispatch(call, own, door)
