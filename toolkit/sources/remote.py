"""The base of sources in another program: connecting and closing, the choice and names of tools, and their results.

Invariants: whatever the other program sends is data. It sets no names but those of its own tools, waives no gate, and
causes no request to another address. Its answers are limited in size, and each wait for it in time.
"""

from __future__ import annotations

import base64
import binascii
import itertools
import logging
import math
import os
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine, Mapping
from typing import Any, ClassVar, TypeVar

import anyio
from typing_extensions import Self

from toolkit._concurrency.event_loop import private_loop
from toolkit._context import ToolContext
from toolkit._guards.hidden_text import escape_hidden
from toolkit._guards.options import check_texts, check_type
from toolkit._messages import File, Image, ToolResult
from toolkit._options import hide_frames
from toolkit._schema.error_messages import shorten, suggest
from toolkit._schema.json_schema import as_mapping, map_schemas
from toolkit._schema.validation.patterns import drop_unsafe_pattern
from toolkit._tools.bindings import AnyTool
from toolkit._tools.from_schema import parse_types
from toolkit._tools.tool import Tool, safe_name
from toolkit.errors import DefinitionError, Failed, ToolkitError

logger: logging.Logger = logging.getLogger("toolkit")

TRIES = 3
PAUSE = 0.5  # seconds before the second try; before the third twice as many
MAX_DESCRIPTION = 1_000  # characters: OpenAI takes 1,024
MAX_TITLE = 100  # characters
MAX_PATTERNS = 20  # of one schema that are checked: each may take 0.1 s to compile
MAX_SHOWN = 10  # tools that one warning names
TEXTS = ("title", "description")  # keywords of a schema
MAX_UPDATES = 1_000  # of one call
MAX_UPDATE = 1_000  # characters
EVENT_ENDS = (b"\n\n", b"\r\n\r\n")
MARKS = (b",", b"{", b"[")
_JSON_TEXT = re.compile(rb'"[^"\x00-\x1f]*["\x00-\x1f]')  # without escapes
# An image or a file that a text names; the name may have brackets, as in "a[1].txt".
_NAMED = re.compile(r"\[image\]|\[file (?:[^\[\]]|\[[^\[\]]*\])*\]")

T = TypeVar("T")
Part = str | Image | File


class Unreachable(Failed):
    """Another program cannot be reached."""

    def __init__(self, message: str, brief: str = "", cause: BaseException | None = None) -> None:
        super().__init__(message)
        self.brief: str = brief  # without the address, for a model
        self.cause: BaseException | None = cause  # neither part of the traceback nor pickled


class RemoteSource:
    """Tools of another program, for a Toolbox or a Runner: the base of MCP and A2A.

    Attributes:
        name: The name of the program here.
    """

    _kind: ClassVar[str]  # the kind of program, in messages
    _item: ClassVar[str]  # the word for one of its tools, in messages
    _prefix: ClassVar[str]  # of the names of its tools
    # Exceptions after which no further try is made to connect.
    _final: ClassVar[tuple[type[BaseException], ...]] = ()

    def __init__(
        self,
        name: str,
        *,
        allow: Collection[str] | None,
        block: Collection[str] | None,
        optional: bool,
        options: Mapping[str, Any],
        location: str,
        longest_connect: float = math.inf,
    ) -> None:
        self.name: str = safe_name(check_type("name", name, str))
        if allow is not None and block is not None:
            raise DefinitionError(f"The {self._kind} {self.name!r}: set either allow= or block=, not both.")

        self._allow = None if allow is None else frozenset(check_texts("allow", allow))
        self._block = frozenset(() if block is None else check_texts("block", block))
        self._optional = check_type("optional", optional, bool)
        self._options = options
        self._location = location  # a sentence with the address, without parts that may be secret
        self._timeout: float = check_type("timeout", options["timeout"], int, float)
        self._connect_timeout = min(self._timeout, longest_connect)
        self._tools: tuple[AnyTool, ...] | None = None
        self._left_out = list[str]()  # the faults of the listing that is being read
        self._is_closed = False

    @property
    def tools(self) -> tuple[AnyTool, ...]:
        """The tools of its last listing. Connects first.

        Raises:
            Failed: The program cannot be reached, and is not optional.
        """
        if self._tools is None:
            self.connect()
        return self._tools or ()

    def current_tools(self) -> tuple[AnyTool, ...]:
        """Return `tools`. A toolbox calls this at the start of each run."""
        return self.tools

    @hide_frames
    def connect(self) -> Self:
        """Connect and list the tools, unless that was done.

        Raises:
            Failed: The program cannot be reached, and is not optional.
        """
        return private_loop.run(self._connect)

    @hide_frames
    async def aconnect(self) -> Self:
        """Async version of `connect`."""
        return await private_loop.arun(self._connect)

    def close(self) -> None:
        """Close the connection, and end a process that was started for it. Later calls of the tools fail."""
        private_loop.run(self._close)

    async def aclose(self) -> None:
        """Async version of `close`."""
        await private_loop.arun(self._close)

    def __enter__(self) -> Self:
        return self.connect()

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return await self.aconnect()

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def _connect(self) -> Self:
        self._is_closed = False
        try:
            await self._open()
        except Failed as error:
            if not self._optional:
                raise
            logger.warning("%s It is optional, so its tools are left out.", error)
            self._tools = ()
        return self

    async def _open(self) -> None:
        """Connect, and pass the listing to `_update_tools`, unless that was done.

        Raises:
            Failed: The program cannot be reached.
        """
        raise NotImplementedError

    async def _close(self) -> None:
        self._is_closed = True

    def _check_open(self) -> None:
        if self._is_closed:
            raise Failed(f"The {self._kind} {self.name!r} was closed.")

    def _describe(self, error: BaseException) -> str:
        """Describe an error without parts that may be secret, such as an address."""
        return str(error) if isinstance(error, ToolkitError) else f"{type(error).__name__}{find_reason(error)}."

    async def _try(self, connect: Callable[[], Awaitable[T]]) -> T:
        """Connect, in several tries within the time limit.

        Raises:
            Unreachable: The program cannot be reached.
        """
        fault: BaseException = TimeoutError()
        with anyio.move_on_after(self._connect_timeout):
            for attempt in range(TRIES):
                await anyio.sleep(attempt * PAUSE)
                try:
                    return await connect()
                except Exception as error:  # noqa: BLE001  the transports raise exceptions of many classes
                    fault = find_leaf(error)
                    if isinstance(fault, self._final):
                        break

        is_late = isinstance(fault, TimeoutError)
        reason = f"it did not answer within {self._connect_timeout:g} s." if is_late else self._describe(fault)
        text = f"The {self._kind} {self.name!r} cannot be reached: {reason.rstrip('.')}."
        raise Unreachable(f"{text} {self._location}".rstrip(), text, fault) from None

    def _update_tools(self, listed: Collection[tuple[str, T]], make: Callable[[T], AnyTool]) -> None:
        """Make the tools of a listing of names and specs. Those that cannot be made are left out, with a warning."""
        known = {name for name, _ in listed}
        for option, names in (("allow", self._allow), ("block", self._block)):
            for name in sorted((names or frozenset()) - known):
                hint = suggest(name, [repr(each)[1:-1] for each, _ in listed])
                logger.warning(
                    "%r: %s= names the %s %r, which it does not have%s", self, option, self._item, name, hint
                )

        tools: dict[str, AnyTool] = {}
        deadline = time.thread_time() + self._timeout  # not of the clock: a busy machine is not the server's fault
        for name, spec in listed:
            if (self._allow is not None and name not in self._allow) or name in self._block:
                continue
            if time.thread_time() > deadline:
                self.leave_out(name, f"the schemas before it took {self._timeout:g} s to check, which timeout= sets.")
                continue
            try:
                tool = make(spec)
            except DefinitionError as error:
                self.leave_out(name, str(error).removeprefix(f"{self._name_tool(name)}: "))
            else:
                if tools.setdefault(tool.name, tool) is not tool:
                    self.leave_out(name, "another one has that name.")

        self._tools = self._select_usable(tuple(tools.values()))
        self._warn_of_left_out()

    def _select_usable(self, tools: tuple[AnyTool, ...]) -> tuple[AnyTool, ...]:
        """Return the tools that may be used."""
        return tools

    def leave_out(self, name: object, reason: object) -> None:
        """Record why a listed tool is left out, for the warning about the listing."""
        self._left_out.append(f"the {self._item} {shorten(repr(name), MAX_TITLE)} is left out: {reason}")

    def _warn_of_left_out(self) -> None:
        shown = self._left_out[:MAX_SHOWN]
        more = len(self._left_out) - MAX_SHOWN
        if shown:
            rest = [f"{more:,} more are left out."] if more > 0 else []
            logger.warning("%r: %s", self, "\n  ".join([*shown, *rest]))
        self._left_out.clear()

    def _name_tool(self, name: str) -> str:
        return f"the {self._item} {name!r} of the {self._kind} {self.name!r}"

    def _declare(
        self,
        name: str,
        accepts: Any,
        returns: Any,
        call: Callable[[AnyTool, dict[str, Any], ToolContext[Any]], Coroutine[Any, Any, ToolResult]],
        declaration: Mapping[str, Any],
    ) -> AnyTool:
        """Make a tool. The options of the source replace those of the declaration.

        Raises:
            DefinitionError: The declaration cannot be a tool.
        """

        async def execute(_context: ToolContext, **_arguments: Any) -> ToolResult:  # no argument begins with "_"
            return await call(tool, _arguments, _context)

        execute.__annotations__ = {"_context": ToolContext}  # as text, it would be resolved for thousands of tools

        title, description = (escape_hidden(declaration[key]) for key in TEXTS)
        settings = {
            "effect": declaration.get("effect"),
            "trust": "foreign",
            "title": title[:MAX_TITLE],
            "_description": shorten(description, MAX_DESCRIPTION),
            **self._options,
        }
        is_hint = self._options.get("effect") is None
        interface = parse_types(self._name_tool(name), _adapt(accepts), _adapt(returns), is_hint=is_hint)
        tool: AnyTool = Tool._declare(safe_name(f"{self._prefix}_{self.name}_{name}"), interface, execute, settings)
        return tool


def make_reporter(context: ToolContext[Any]) -> Callable[[str], None]:
    """Make a function that reports progress of a call, at most `MAX_UPDATES` times."""
    numbers = itertools.count(1)

    def report(text: str) -> None:
        if next(numbers) <= MAX_UPDATES:
            context.progress(shorten(text, MAX_UPDATE))

    return report


class BoundedStream:
    """A mixin for streams of httpx or httpx2 that limits the bytes of an answer, and the values in it or in one event.

    Parsing many values blocks the event loop, also for other sources.
    """

    # Raised for an answer that is longer, or compressed, although that was not asked for: it may grow a thousandfold.
    error: ClassVar[type[Exception]]
    # Whether commas and brackets in texts count as values, too.
    counts_texts: ClassVar[bool] = False

    def __init__(self, response: Any, max_bytes: float, max_marks: int) -> None:
        if response.headers.get("content-encoding", "identity") != "identity":
            raise self.error("it is compressed, although that was not asked for")
        self._stream = response.stream
        self._max_bytes = max_bytes
        self._max_marks = max_marks
        kinds = (response.request.headers.get("accept", ""), response.headers.get("content-type", ""))
        self._has_events = all("text/event-stream" in kind.lower() for kind in kinds)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = self._max_bytes
        marks = MarkCounter()
        async for chunk in self._stream:
            left -= len(chunk)
            if left < 0:
                raise self.error(f"it has more than {self._max_bytes:,} bytes")
            event = max(map(chunk.rfind, EVENT_ENDS)) if self._has_events else -1
            if event >= 0:
                marks.count = 0
            part = chunk[event + 1 :]
            marks.add(part.replace(b'"', b"") if self.counts_texts else part)
            if marks.count > self._max_marks:
                raise self.error(f"it has more than {self._max_marks:,} values")
            yield chunk

    async def aclose(self) -> None:
        """Close the connection."""
        await self._stream.aclose()


class MarkCounter:
    """Counts the commas and opening brackets in JSON outside its texts: each value costs time to parse.

    A text ends with its line at the latest, also if it is none of JSON, such as a comment in a stream of events.
    """

    def __init__(self) -> None:
        self.count: int = 0
        self._open: bytes = b""  # the opening quote of a text that the next data continue, and half an escape

    def add(self, data: bytes) -> None:
        """Count the commas and brackets of the next data."""
        data = (self._open + data).replace(b"\\\\", b"").replace(b'\\"', b"")
        outside, quote, _ = _JSON_TEXT.sub(b"", data).partition(b'"')
        self._open = quote + (b"\\" if data.endswith(b"\\") else b"")
        self.count += sum(map(outside.count, MARKS))


def decode_file(data: str | bytes, media_type: str, name: str) -> Part:
    """Make an image or a file from bytes or base64. If these are invalid, return a text with its name."""
    name = escape_hidden(name)
    try:
        content = base64.b64decode(data, validate=True) if isinstance(data, str) else data
        return Image(content, media_type) if media_type.startswith("image/") else File(content, media_type, name)
    except (binascii.Error, ValueError):
        return f"[{name} that cannot be read]"


def join_parts(parts: Collection[Part]) -> str:
    """Join parts to a text, which names each image and file once, and in which hidden characters are escaped."""
    named = {*_NAMED.findall("\n".join(part for part in parts if isinstance(part, str)))}
    return "\n".join(_write_part(part) for part in parts if isinstance(part, str) or _write_part(part) not in named)


def attach_parts(parts: Collection[Part]) -> dict[str, Any]:
    """Return the images and files among parts, as keyword arguments of `ToolResult`."""
    return {
        "images": tuple(part for part in parts if isinstance(part, Image)),
        "files": tuple(part for part in parts if isinstance(part, File)),
    }


def _write_part(part: Part) -> str:
    if isinstance(part, str):
        return escape_hidden(part)
    return "[image]" if isinstance(part, Image) else f"[file {part.name}]"


def _adapt(schema: Any) -> Any:
    """Copy a schema for a model: hidden characters in titles and descriptions are escaped.

    Patterns that may take long to check here, and those beyond `MAX_PATTERNS`, are left out; the other program checks
    them.

    Raises:
        DefinitionError: Another text, such as a name, has hidden characters; or there are too many patterns, and some
            are `patternProperties`, which cannot be left out.
    """
    count = 0

    def adapt(node: dict[str, Any]) -> dict[str, Any]:
        nonlocal count
        count += len(as_mapping(node.get("patternProperties")))
        if "pattern" in node:
            count += 1
        if count <= MAX_PATTERNS:
            return _update_tuple(drop_unsafe_pattern(node))
        if "patternProperties" in node:
            raise DefinitionError(f"its schema has more than {MAX_PATTERNS} patterns.")
        return _update_tuple({keyword: value for keyword, value in node.items() if keyword != "pattern"})

    return _escape_texts(map_schemas(schema, adapt))


def _update_tuple(node: dict[str, Any]) -> dict[str, Any]:
    """Write a tuple as in JSON Schema 2020-12. In earlier versions, and in those of zod, `items` is a list."""
    if not isinstance(node.get("items"), list):
        return node
    rest = {keyword: value for keyword, value in node.items() if keyword != "additionalItems"}
    return {**rest, "prefixItems": node["items"], "items": node.get("additionalItems", True)}


def _escape_texts(schema: Any) -> Any:
    if isinstance(schema, str) and (shown := escape_hidden(schema)) != schema:
        raise DefinitionError(f"its schema has hidden characters: {shown[:MAX_TITLE]}.")
    if isinstance(schema, list):
        return [*map(_escape_texts, schema)]
    if not isinstance(schema, dict):
        return schema
    return {
        _escape_texts(key): escape_hidden(part) if key in TEXTS and isinstance(part, str) else _escape_texts(part)
        for key, part in schema.items()
    }


def find_reason(error: BaseException | None) -> str:
    """Return the operating system's reason for a failed connection, after a colon, or "" if there is none."""
    reason = ""
    for _ in range(10):
        if error is None:
            break
        error = find_leaf(error)
        if isinstance(error, OSError) and error.errno:
            # A message of asyncio has the address in it. One of Windows does not, and its errno is mostly EINVAL.
            is_plain = type(error).__module__ != "builtins" or getattr(error, "winerror", None)
            reason = str(error.strerror or reason) if is_plain else os.strerror(error.errno)
        error = error.__cause__ or error.__context__
    return f": {reason}" if reason else ""


def find_leaf(error: BaseException) -> BaseException:
    """Return the first exception of nested exception groups, or any other exception as it is."""
    while getattr(error, "exceptions", ()):
        error = error.exceptions[0]  # type: ignore[attr-defined]  # no builtin in Python 3.10
    return error
