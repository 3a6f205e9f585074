"""What is said about a call, in the keys that stand beside its arguments and begin with an underscore.

Pictures, files and texts, as a message can carry them.

What the values of a conversation have in common.

What a model is shown of a tool, and of the answer that it is to give: plain data.

What is said between a run and a model: frozen values, the same for every provider.

Messages as JSON-able data, and back: what a state, a file or a database keeps of a conversation.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from types import UnionType
from typing import Any, Literal, NamedTuple, TypeAlias, Union, get_args, get_origin, get_type_hints

from typing_extensions import Self

from toolkit._concurrency.cancellation import Cancellation
from toolkit.errors import ToolError


@dataclass(frozen=True)
class Image:
    """A picture, for a model that can see.

    Attributes:
        data: The file's bytes.
        media_type: IANA media type, such as `image/png`.

    Raises:
        TypeError: The data are no bytes.
        ValueError: The media type is none.
    """

    data: bytes
    media_type: str = "image/png"

    def __post_init__(self) -> None:
        _check(self)

    def __repr__(self) -> str:
        return f"<Image of {len(self.data)} bytes, {self.media_type}>"


@dataclass(frozen=True)
class File:
    """A document, for a model that can read it.

    Attributes:
        data: The file's bytes.
        media_type: IANA media type, such as `application/pdf`, which is what most providers take.
        name: What the model calls it by, such as `report.pdf`.

    Raises:
        TypeError: The data are no bytes.
        ValueError: The media type is none.
    """

    data: bytes
    media_type: str = "application/pdf"
    name: str = "file"

    def __post_init__(self) -> None:
        _check(self)
        object.__setattr__(self, "name", replace_surrogates(self.name) or "file")

    def __repr__(self) -> str:
        return f"<File {self.name!r} of {len(self.data)} bytes, {self.media_type}>"


def _check(part: Image | File) -> None:
    kind = type(part).__name__
    if not isinstance(part.data, bytes):
        raise TypeError(f"{kind} takes the bytes of a file, as Path.read_bytes() gives them, not {part.data!r:.100}.")
    if not re.fullmatch(r"[\w.+-]+/[\w.+-]+(;[ -~]*)?", part.media_type, re.ASCII):
        raise ValueError(f"{kind}: {part.media_type!r:.100} is no media type, such as 'image/png'.")


def replace_surrogates(text: str) -> str:
    """Join halves of a character that came apart, and replace those without a partner: no request can carry them."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


TOOL, ACTIVITY, REASONING, OUTPUT = "_tool", "_activity", "_reasoningForCall", "_output"
INSTANCE, OUTPUT_PATH, MODULE, IMPORTS = "_instance", "_outputPath", "_module", "_imports"

# In the order in which they are shown, in front of the arguments.
META = (TOOL, ACTIVITY, MODULE, IMPORTS, INSTANCE, OUTPUT_PATH, REASONING, OUTPUT)


def split_meta(document: Mapping[str, Any], keys: Collection[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Part what a model wrote into the arguments, and the fields of a call that hold what it said about it.

    Args:
        document: The arguments as they came.
        keys: Those that are none of the tool's arguments.
    """
    said = {_FIELDS[key]: value for key, value in document.items() if key in keys and key in _FIELDS}
    fields = {field: replace_surrogates(value) for field, value in said.items() if isinstance(value, str)}
    return {key: value for key, value in document.items() if key not in keys}, fields | _listed(document, keys)


def _listed(document: Mapping[str, Any], keys: Collection[str]) -> dict[str, Any]:
    named = document.get(IMPORTS) if IMPORTS in keys else None
    return (
        {"imports": tuple(replace_surrogates(name) for name in named if isinstance(name, str))}
        if isinstance(named, list)
        else {}
    )


_FIELDS = {REASONING: "reasoning", INSTANCE: "instance", OUTPUT_PATH: "output_path"}


class FrozenValue:
    """A frozen value that shows only what differs from its defaults."""

    def replace(self, **changes: Any) -> Self:
        """Make the same value with other fields; `dataclasses.replace` takes six times as long."""
        value = object.__new__(type(self))
        vars(value).update(vars(self), **changes)
        return value

    def __repr__(self) -> str:
        told = ((f.name, getattr(self, f.name), f.default) for f in fields(self) if f.repr)  # type: ignore[arg-type]
        shown = (f"{name}={value!r}" for name, value, default in told if value != default)
        return f"{type(self).__name__}({', '.join(shown)})"


@dataclass(frozen=True, kw_only=True)
class ToolSpec:
    """A tool as a model may see it: plain data, no function.

    Attributes:
        parameters: JSON Schema (draft 2020-12) of the arguments, of type object.
        output: JSON Schema of what the tool gives, where it says so.
        title: A name for people, for protocols that show tools to people.
        strict: Whether the provider is to enforce the schema; None leaves that to the dialect.
        namespace: A group that the tool is shown in, where the provider knows groups.
        activity: What carries the tool out; empty where the model does; None where nothing was said about it.
        about: What the model is to say of a call beside its arguments: schemas by key.
        module: Where the tool is carried out apart from the run; empty where it is not.
        defer_loading: Whether the provider shows the parameters only once the model looks for the tool, where it can.
        forms: How `parameters` is shown, kept by dialects; other specs with the same schema may share it.
        shown: The wire forms of the tool, kept by dialects.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    output: Mapping[str, Any] | None = None
    title: str | None = None
    strict: bool | None = None
    namespace: str | None = None
    activity: str | None = None
    about: Mapping[str, Any] = field(default_factory=dict)
    module: str = ""
    defer_loading: bool = False
    forms: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)
    rendered: dict[Any, Any] = field(default_factory=dict, init=False, compare=False, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "forms": {}, "shown": {}}  # they are made again where they are needed


@dataclass(kw_only=True)
class OutputSpec:
    """What the answers of one run have to be: plain data, no type.

    Attributes:
        spec: The answer as the arguments of a tool, whose schema is the answer's own.
        by_tool: Whether the answer is a call of that tool: set where a server refuses `response_format`, and kept for
            the rest of the run.
    """

    spec: ToolSpec
    by_tool: bool = False


@dataclass(frozen=True, kw_only=True, repr=False)
class ToolCall(FrozenValue):
    """A model's wish to have one tool carried out.

    Attributes:
        name: The tool's name as the model wrote it; it may not exist.
        arguments: JSON text, not yet checked: the model's own, or what its dialect made of it.
        id: Ours, unique in the run.
        provider_call_id: What the provider calls this call; they repeat or omit theirs, so nothing is looked up by it.
        reasoning: Why the model makes the call, where it was asked.
        instance: Which of several things the call is about, where they are told apart.
        output_path: Where the result is to be kept for other calls.
        imports: Names of what a call that is carried out apart may see.
        wire_arguments: The model's own text, where the dialect had to read it back into the tool's form.
        namespace: The group that the model named with the tool, where the provider knows groups.
    """

    name: str
    arguments: str = "{}"
    id: str = ""
    provider_call_id: str = ""
    reasoning: str = ""
    wire_arguments: str = ""
    namespace: str = ""
    instance: str = ""
    output_path: str = ""
    imports: tuple[str, ...] = ()

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> ToolCall:
        """Make a call of plain data: its fields by name.

        Raises:
            TypeError: A call has no such field, or it is of another type.
        """
        imports = data.get("imports", ())
        if not isinstance(imports, (list, tuple)):
            raise TypeError(f"imports={imports!r:.100} is no list")
        return cls(**{**data, "imports": tuple(imports)}).check()

    def check(self) -> Self:
        """Give the call back, where all of it is text.

        Raises:
            TypeError: A field is of another type.
        """
        texts = [*vars(self).items(), *((f"imports[{place}]", name) for place, name in enumerate(self.imports))]
        for name, value in texts:
            if type(value) is not str and name != "imports":
                raise TypeError(f"{name}={value!r:.100} is no text")
        return self

    @classmethod
    def from_json(cls, text: str) -> ToolCall:
        """Read what `to_json` wrote.

        Raises:
            ValueError: It is something else.
        """
        try:
            return cls.of(json.loads(text))
        except (TypeError, AttributeError, RecursionError) as error:
            raise ValueError(f"This is no tool call: {error}") from error

    def to_json(self) -> str:
        """Write the call as a JSON text, to be kept, compared, and carried out another time.

        Raises:
            TypeError: A field is of another type than it has to be.
        """
        told = vars(self.check())
        changed = {f.name: told[f.name] for f in fields(self) if told[f.name] != f.default}
        return json.dumps(changed, ensure_ascii=False)


@dataclass(frozen=True, kw_only=True)
class PendingApproval:
    """A call that waits for somebody's yes: plain data.

    Attributes:
        call: The call; its `id` is what a decision names.
        digest: What a yes is bound to: the tool, its definition, the arguments, the call.
        arguments: The validated arguments as JSON, for people to read.
        title: The tool's name for people.
        effect: What the tool says that a call does: read, write, destructive; empty where it says nothing.
        reason: Why it was not decided at once.
    """

    call: ToolCall
    digest: str
    arguments: str
    title: str = ""
    effect: str = ""
    reason: str = ""


class ToolResult(NamedTuple):
    """What came of one call.

    A tool may return one itself: `ToolResult(rows, details={"seconds": 0.2})`, or `ToolResult(error="not found: X")`.

    Attributes:
        value: What the function returned; for Python, the model sees `text`.
        text: What the model sees. Made from `value` (and `error`) when a tool leaves it out.
        error: Why there is no result, or nothing but a partial one; None when all went well.
        kind: Sort of error: failed, not_found, invalid_arguments, cancelled, denied, timed_out.
        details: Anything for the application; never sent to a model.
        exception: What the tool raised, with its traceback; never sent to a model.
        repairs: What was mended in the model's arguments before they were valid.
        images: Pictures for the model; taken from `value` where that is one, or a list that holds some.
        files: Documents for the model; taken from `value` as pictures are.
    """

    value: Any = None
    text: str | None = None
    error: str | None = None
    kind: str | None = None
    details: Any = None
    exception: BaseException | None = None
    repairs: tuple[str, ...] = ()
    images: tuple[Image, ...] = ()
    files: tuple[File, ...] = ()

    def __repr__(self) -> str:
        told = zip(self._fields, self, self._field_defaults.values())
        return f"ToolResult({', '.join(f'{name}={value!r}' for name, value, default in told if value != default)})"

    @property
    def is_error(self) -> bool:
        """Whether the call failed."""
        return self.error is not None

    @classmethod
    def from_error(cls, error: ToolError, exception: BaseException | None = None) -> ToolResult:
        """Make the result of a call that ended in `error`."""
        text = error.text
        return _new(cls, (None, text, text, error.kind, None, exception or error, (), (), ()))


_new = tuple.__new__  # the constructor takes twice the time


@dataclass(frozen=True)
class Usage:
    """Tokens that a run has cost so far, and the requests that cost them."""

    input_tokens: int = 0
    output_tokens: int = 0
    requests: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.requests + other.requests,
        )


@dataclass(frozen=True, repr=False)
class SystemMessage(FrozenValue):
    """Instructions that stand above the conversation."""

    text: str


@dataclass(frozen=True, repr=False)
class UserMessage(FrozenValue):
    """What the user says."""

    text: str
    images: tuple[Image, ...] = ()
    files: tuple[File, ...] = ()


@dataclass(frozen=True, kw_only=True, repr=False)
class ModelResponse(FrozenValue):
    """One answer of a model: text, calls, or both.

    Attributes:
        finish_reason: The provider's word for why it stopped, such as `stop`, `tool_calls` or `length`.
        model: Which model answered, in the provider's words.
        reasoning: The model's thoughts, where the provider shows them; sent back to it, never shown as an answer.
        items: What the provider sent, item by item, where it wants that back word for word: plain data.
    """

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    finish_reason: str = ""
    usage: Usage = Usage()
    model: str = ""
    reasoning: str = ""
    items: tuple[Mapping[str, Any], ...] = field(default=(), hash=False, repr=False)


@dataclass(frozen=True, kw_only=True, repr=False)
class ToolMessage(FrozenValue):
    """What the model is told about one call: no details, no exception.

    Attributes:
        timestamp: When the call ended, in seconds since 1970, UTC; never sent to a model.
    """

    call_id: str
    provider_call_id: str = ""
    name: str
    text: str
    is_error: bool = False
    images: tuple[Image, ...] = ()
    files: tuple[File, ...] = ()
    timestamp: float = field(default=0.0, compare=False, repr=False)


Message: TypeAlias = SystemMessage | UserMessage | ModelResponse | ToolMessage


@dataclass(frozen=True, kw_only=True)
class ModelRequest:
    """Everything a model needs for one answer.

    Attributes:
        tools: The tools on offer; none on a last turn.
        output: What the answer has to be; None where any text will do.
        choice: Whether tools are called: "auto", "none", "required", or one tool's name; None leaves it to the server.
        allowed: Names of the tools that may be called now, of those on offer; None means all.
        turn: Which answer of the run it is for, from 0.
        early: Whether a stream is to give each call as soon as its arguments are whole.
        memo: Wire forms of the first messages, kept by the model between the turns of one run.
        cancellation: Tells a model that works on a thread when nobody waits for the answer any more.
    """

    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    output: OutputSpec | None = None
    choice: str | None = None
    allowed: tuple[str, ...] | None = None
    turn: int = 0
    early: bool = False
    memo: list[dict[str, Any]] = field(default_factory=list, compare=False, repr=False)
    cancellation: Cancellation | None = field(default=None, compare=False, repr=False)

    @property
    def offered(self) -> tuple[ToolSpec, ...]:
        """What the model may call: the tools, and the one whose call is the answer."""
        return (*self.tools, self.output.spec) if self.output and self.output.by_tool else self.tools


# What stands before pictures that tools gave, where a provider takes no pictures in a tool's answer.
IMAGES_TEXT = "The images of the results above, in order."
FILES_TEXT = "The files of the results above, in order: the images first."


def attachment_message(results: Iterable[ToolResult | ToolMessage]) -> list[UserMessage]:
    """Make the message that shows the pictures and files of results; none where they have none.

    For providers whose tools answer with text alone.
    """
    told = list(results)
    images = tuple(image for result in told for image in result.images)
    files = tuple(file for result in told for file in result.files)
    text = FILES_TEXT if files else IMAGES_TEXT
    return [UserMessage(text, images, files)] if images or files else []


# Reasons after which the model's last words are no answer.
UNANSWERED = frozenset({"cancelled", "error", "paused", "stopped"})


@dataclass(frozen=True)
class AnsweredCall:
    """A call that has its result.

    Attributes:
        place: Where it stands among the calls of its answer, from 0.
    """

    position: int
    call: ToolCall
    message: ToolMessage


_KINDS: Mapping[str, type[Message]] = {
    "system": SystemMessage,
    "user": UserMessage,
    "model": ModelResponse,
    "tool": ToolMessage,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}


def message_to_dict(message: Message) -> dict[str, Any]:
    """Write a message as JSON-able data; `message_from_dict` reads it back."""
    return {"kind": _NAMES[type(message)], **{f.name: _plain(getattr(message, f.name)) for f in fields(message)}}


def message_from_dict(data: Mapping[str, Any]) -> Message:
    """Read what `message_to_dict` wrote.

    Raises:
        KeyError: There is no such kind of message.
    """
    values = {key: _READERS[key](value) if key in _READERS else value for key, value in data.items() if key != "kind"}
    return _KINDS[data["kind"]](**values)


def check_fields(value: Any) -> None:
    """Check that the fields of a dataclass hold what they say, at any depth; whole numbers are counts, from 0.

    Raises:
        ValueError: One of them does not.
    """
    kinds = get_type_hints(type(value))
    for told in fields(value):
        found = getattr(value, told.name)
        if not _check_of(kinds[told.name])(found):
            raise ValueError(f"{told.name}={found!r:.100} is not of type {told.type}.")


def _check_of(kind: Any) -> _Check:
    """Make what tells whether a value is of a type."""
    if is_dataclass(kind):
        checks = {name: _check_of(inner) for name, inner in get_type_hints(kind).items()}
        return lambda value: type(value) is kind and all(fits(getattr(value, name)) for name, fits in checks.items())
    if made := _CHECKS.get(get_origin(kind)):
        return made(get_args(kind))
    return _SIMPLE.get(kind) or (lambda value: type(value) is kind)


def _any_of(kinds: Sequence[Any]) -> _Check:
    checks = [*map(_check_of, kinds)]
    return lambda value: any(fits(value) for fits in checks)


def _each_of(kinds: Sequence[Any]) -> _Check:
    fits = _check_of(kinds[0])
    return lambda value: type(value) is tuple and all(map(fits, value))


def _by_name(kinds: Sequence[Any]) -> _Check:
    fits = _check_of(kinds[1])
    return lambda value: type(value) is dict and all(map(fits, value.values()))


_Check: TypeAlias = Callable[[Any], bool]
_CHECKS: Mapping[Any, Callable[[Sequence[Any]], _Check]] = {
    Literal: lambda words: lambda value: value in words,
    Union: _any_of,
    UnionType: _any_of,
    tuple: _each_of,
    Mapping: _by_name,
}
_SIMPLE: Mapping[Any, _Check] = {
    Any: lambda _: True,
    int: lambda value: type(value) is int and value >= 0,
    float: lambda value: type(value) in (int, float),
}

_READERS: Mapping[str, Callable[[Any], Any]] = {
    "usage": lambda usage: Usage(**usage),
    "calls": lambda calls: tuple(map(ToolCall.of, calls)),
    "images": lambda images: tuple(Image(**_decoded(image)) for image in images),
    "files": lambda files: tuple(File(**_decoded(file)) for file in files),
    "items": tuple,
}


def _decoded(part: Mapping[str, Any]) -> dict[str, Any]:
    return {**part, "data": base64.b64decode(part["data"])}


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, (ToolCall, Usage, Image, File)):
        return {f.name: _plain(getattr(value, f.name)) for f in fields(value)}
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value
