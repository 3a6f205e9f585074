"""Values exchanged with a model: requests, messages, calls, results, usage; the same for every provider.

All of them are plain data and most are frozen, so they can be compared, pickled and written as JSON. They are ordered
from the outside in: a request, its tools, its messages, the calls and results in those, attachments; then their JSON
form, and the names of the keys about a call that a model writes beside its arguments.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from math import isfinite
from operator import add
from types import NoneType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, TypeVar

from typing_extensions import Self

from toolkit._concurrency.cancellation import Cancellation
from toolkit._lazy import render
from toolkit._options import check_methods, explain_missing, make_hints
from toolkit.errors import ToolError

Effect: TypeAlias = Literal["read", "write", "destructive"]
"""Effect of a tool's calls."""

T = TypeVar("T")

# Texts before the attachments of results, for providers whose tool messages hold only text.
IMAGES_TEXT = "The images of the results above, in order."
FILES_TEXT = "The files of the results above, in order: the images first."
# The end of an error's text, if the exception's message is not for the model.
REMEDY = "Try other arguments or another tool, or report that this did not work."
# A rough estimate, for English and JSON.
CHARACTERS_PER_TOKEN = 4
# Hints for options of images and files that other libraries have.
MEDIA_HINTS: Mapping[str, str] = make_hints(
    ("path file", "Write data=Path(...).read_bytes()."),
    ("image_url url", "It takes bytes: fetch them, and write data=..."),
    ("format mime_type", "Write media_type='image/png' or the like."),
)


class FrozenValue:
    """Base of frozen dataclasses. Its `repr` omits fields that have their default."""

    if not TYPE_CHECKING:  # type checkers report missing attributes themselves
        __getattr__ = explain_missing(
            ("content", "message.text"),
            ("role", "isinstance(message, UserMessage): each role has its own class, of toolkit.models"),
            ("tool_calls", "message.calls of a ModelResponse"),
            ("args input", "json.loads(call.arguments)"),
            ("function", "call.name and call.arguments"),
            ("prompt_tokens", "usage.input_tokens"),
            ("completion_tokens", "usage.output_tokens"),
        )

    def replace(self, **changes: Any) -> Self:
        """Return a copy with other fields; `dataclasses.replace` takes six times as long."""
        value = object.__new__(type(self))
        vars(value).update(vars(self), **changes)
        return value

    def __repr__(self) -> str:
        values = ((f.name, getattr(self, f.name), f.default) for f in fields(self) if f.repr)  # type: ignore[arg-type]
        changed = (f"{name}={value!r}" for name, value, default in values if value != default)
        return f"{type(self).__name__}({', '.join(changed)})"


@dataclass(frozen=True, kw_only=True)
class ModelRequest:
    """Everything a model needs for one response.

    Attributes:
        messages: The conversation so far.
        tools: The tools that are offered; none in a last turn.
        output: Interface of the structured output; None if the answer is text.
        choice: Tool choice: "auto", "none", "required", or one tool's name; None leaves it to the server. One that
            forces a call applies if `turn` is 0.
        allowed: Names of the offered tools that may be called in this turn; None means all.
        turn: Number of the response in the run, from 0.
        early: Whether a stream yields each call as soon as its arguments are complete.
        memo: Wire forms of the first messages, cached by the model from one turn of a run to the next.
        cancellation: For a model that runs on a thread: cancelled when the response is no longer wanted.
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
    def all_tools(self) -> tuple[ToolSpec, ...]:
        """The tools that are offered and, if the structured output is a call, the tool of that call."""
        return (*self.tools, self.output.spec) if self.output and self.output.by_tool else self.tools


@dataclass(frozen=True, kw_only=True)
class ToolSpec:
    """A tool as dialects render it: plain data, no function.

    Attributes:
        parameters: JSON Schema (draft 2020-12) of the arguments, of type object.
        output: JSON Schema of the tool's value; None if it is not declared.
        title: Display name, for protocols that show tools to people.
        strict: Whether the provider should enforce the schema; None leaves that to the dialect.
        namespace: Group of the tool, for providers that support groups.
        activity: Name of the function that executes a declared tool; empty if the model fills in its output; None for a
            tool that is not declared.
        meta: Schemas of the meta keys that the model fills in beside the arguments, by key.
        module: Isolated module that executes the tool; empty if the run does.
        defer_loading: Whether a provider that can do so shows the parameters only once the model searches for the tool.
        provider_form: The tool's form in a request, if the provider executes it.
        cache: Forms of `parameters` and wire forms of the tool, by the rules and the dialects that made them.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    output: Mapping[str, Any] | None = None
    title: str | None = None
    strict: bool | None = None
    namespace: str | None = None
    activity: str | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)
    module: str = ""
    defer_loading: bool = False
    provider_form: Mapping[str, Any] | None = None
    cache: dict[Any, Any] = field(default_factory=dict, init=False, compare=False, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "cache": {}}  # filled again when it is needed


@dataclass(kw_only=True)
class OutputSpec:
    """Interface of the structured output of one run.

    Attributes:
        spec: The output as the arguments of a tool, whose schema is the output's own.
        by_tool: Whether the output is a call of that tool: set for the rest of the run if a server refuses
            `response_format`.
        decode: Converts the beginning of a streamed output from the form that was asked for, or returns None if it
            cannot yet: set by the model; None if the forms are the same.
    """

    spec: ToolSpec
    by_tool: bool = False
    decode: Callable[[Any], Any] | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, repr=False)
class Usage(FrozenValue):
    """Tokens and requests.

    Attributes:
        input_tokens: Tokens that the model read.
        output_tokens: Tokens that the model wrote, including its reasoning.
        requests: Number of requests.
        cached_tokens: Input tokens that were in the provider's cache, as the provider reports them.
        reasoning_tokens: Output tokens of the reasoning, as the provider reports them.
        cache_write_tokens: Input tokens that the provider has put into its cache, as it reports them.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    requests: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    cache_write_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        """Tokens that the model read and wrote."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Usage:
        return Usage(*map(add, vars(self).values(), vars(other).values()))


@dataclass(frozen=True, repr=False)
class SystemMessage(FrozenValue):
    """Instructions from the application."""

    text: str


@dataclass(frozen=True, repr=False)
class UserMessage(FrozenValue):
    """A message of the user."""

    text: str
    images: tuple[Image, ...] = ()
    files: tuple[File, ...] = ()


@dataclass(frozen=True, kw_only=True, repr=False)
class ModelResponse(FrozenValue):
    """One response of a model: text, calls, or both.

    Attributes:
        finish_reason: The provider's reason for the end, such as `stop`, `tool_calls` or `length`.
        model: Name of the model that responded, as the provider reports it.
        reasoning: The model's reasoning, if the provider returns it; not part of the answer.
        reasoning_key: The key with which a server of Chat Completions sent the reasoning, and gets it back:
            "reasoning_content" or "reasoning". With "" it is not sent back.
        items: The provider's output items, if it expects them back unchanged: plain data.
        is_answer: Whether the text is the answer although there are calls: the run ends once these have succeeded.
    """

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    finish_reason: str = ""
    usage: Usage = Usage()
    model: str = ""
    reasoning: str = ""
    items: tuple[Mapping[str, Any], ...] = field(default=(), hash=False, repr=False)
    is_answer: bool = False
    reasoning_key: str = ""


@dataclass(frozen=True, kw_only=True, repr=False)
class ToolMessage(FrozenValue):
    """The result of one call as the model receives it: no details, no exception.

    Attributes:
        foreign: The tools with `trust="foreign"` that the run had called by then; never sent to a model.
        timestamp: End of the call, in seconds since 1970, UTC; never sent to a model.
        is_cut: Whether the text was cut, since the result's was too long; never sent to a model.
    """

    call_id: str
    provider_call_id: str = ""
    name: str
    text: str
    is_error: bool = False
    images: tuple[Image, ...] = ()
    files: tuple[File, ...] = ()
    foreign: tuple[str, ...] = field(default=(), compare=False, repr=False)
    timestamp: float = field(default=0.0, compare=False, repr=False)
    is_cut: bool = field(default=False, compare=False, repr=False)

    def to_result(self) -> ToolResult:
        """Convert the message to a result, without value, exception and details."""
        error = self.text if self.is_error else None
        return ToolResult(text=self.text, error=error, images=self.images, files=self.files)


Message: TypeAlias = SystemMessage | UserMessage | ModelResponse | ToolMessage
"""A message of a conversation, such as those of `RunResult.messages`."""


@dataclass(frozen=True, kw_only=True, repr=False)
class ToolCall(FrozenValue):
    """A call of one tool by the model.

    Attributes:
        name: Name of the tool, as the model wrote it. There may be no such tool.
        arguments: The arguments as JSON text, not validated yet.
        id: The id of the call, unique in the run.
        provider_call_id: The provider's id. It may be empty or repeated.
        reasoning: The model's reason for the call, if it was asked for one.
        instance: The instance that the call is for, if the tool has several.
        output_path: The path under which the result is stored for other calls.
        imports: Names of the shared values that an isolated call may read.
        wire_arguments: The model's own text, if the dialect has converted it.
        namespace: The group of the tool, for providers with groups.
        extra_content: JSON text that the server added to the call and needs back, such as Gemini's thought signature.
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
    extra_content: str = ""

    def __str__(self) -> str:
        """Return the call as Python would write it, long arguments cut: `add(a=17, b=25)`."""
        return render(self, "formatting.format_call")

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ToolCall:
        """Make a call from a dict of its fields.

        Raises:
            TypeError: A field is unknown, or of another type.
        """
        imports = data.get("imports", ())
        if not isinstance(imports, (list, tuple)):
            raise TypeError(f"imports={imports!r:.100} is not a list")
        return cls(**{**data, "imports": tuple(imports)}).validate()

    def validate(self) -> Self:
        """Return the call itself after checking that all of its fields are text.

        Raises:
            TypeError: A field is of another type.
        """
        _require_texts({name: value for name, value in vars(self).items() if name != "imports"})
        _require_texts({f"imports[{place}]": name for place, name in enumerate(self.imports)})
        return self

    @classmethod
    def from_json(cls, text: str) -> ToolCall:
        """Read the output of `to_json`.

        Raises:
            ValueError: The text is not a call in this form.
        """
        try:
            return cls.from_dict(json.loads(text))
        except (TypeError, AttributeError, ValueError, RecursionError) as error:
            raise ValueError(f"This is not a tool call: {error}") from error

    def to_json(self) -> str:
        """Write the call as JSON text, to save it or execute it later.

        Raises:
            TypeError: A field is not text.
        """
        values = vars(self.validate())
        changed = {f.name: values[f.name] for f in fields(self) if values[f.name] != f.default}
        return json.dumps(changed, ensure_ascii=False)


class ToolResult(NamedTuple):
    """The outcome of one call.

    A tool may return a result: `ToolResult(rows, details={"seconds": 0.2})` or `ToolResult(error="not found: X")`.

    Attributes:
        value: The return value of the function. The model receives `text`.
        text: The text for the model, up to `max_result` characters. By default made from `value` and `error` after the
            tool has returned.
        error: Why there is no result, or only a partial one. None for success.
        kind: The kind of error: failed, not_found, invalid_arguments, cancelled or timed_out. After a refusal: denied,
            rejected, unavailable or timed_out. Pending if the call waits for approval, stopped if the approver ended
            the run.
        details: Any data for your program. It is not sent to the model.
        exception: The exception that the tool raised, with its traceback. It is not sent to the model.
        repairs: Repairs that made the model's arguments valid.
        images: Images for the model. By default those in `value`.
        files: Files for the model. By default those in `value`.
    """

    value: Any = None
    text: str = None  # type: ignore[assignment]  # None until the tool that made it has returned
    error: str | None = None
    kind: str | None = None
    details: Any = None
    exception: BaseException | None = None
    repairs: tuple[str, ...] = ()
    images: tuple[Image, ...] = ()
    files: tuple[File, ...] = ()

    def __repr__(self) -> str:
        values = zip(self._fields, self, self._field_defaults.values())
        changed = {name: value for name, value, default in values if value is not default}  # `!=` of a table is a table
        if self.text in (self.error, self.value if isinstance(self.value, str) else None):
            changed.pop("text", None)  # printed once
        return f"ToolResult({', '.join(f'{name}={value!r}' for name, value in changed.items())})"

    def _repr_html_(self) -> str:
        return render(self, "cards.render_tool_result")

    @property
    def is_error(self) -> bool:
        """True if the call failed."""
        return self.error is not None

    def replace(self, **changes: Any) -> ToolResult:
        """Return a copy with other fields."""
        return self._replace(**changes)

    def to_json(self) -> str:
        """Write the result as JSON text, with its images and files.

        In `value` and `details`, models and dataclasses become objects, dates become texts, bytes become base64, and
        other objects their `str`. The exception is left out.
        """
        own = self._replace(exception=None, value=make_plain(self.value), details=make_plain(self.details))._asdict()
        given = {name: _to_json(value) for name, value in own.items() if value not in (None, ())}
        return json.dumps(clean_json(given), ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> ToolResult:
        """Read the output of `to_json`. `value` and `details` are plain data.

        Raises:
            ValueError: The text is not a result in this form.
        """
        try:
            data = json.loads(text)
            values = {name: _READERS[name](value) if name in _READERS else value for name, value in data.items()}
            _require_texts({name: data[name] for name in ("text", "error", "kind") if name in data})
            return cls(**values)
        except (TypeError, AttributeError, ValueError, RecursionError) as error:
            raise ValueError(f"This is not a tool's result: {error}") from error

    @classmethod
    def from_error(cls, error: ToolError, exception: BaseException | None = None) -> ToolResult:
        """Make the result of a call from an exception."""
        text = error.text
        return _new(cls, (None, text, text, error.kind, None, exception or error) + _OTHERS)  # noqa: RUF005  as below


if not TYPE_CHECKING:  # in the class, mypy takes it for a field
    ToolResult.__getattr__ = explain_missing(
        ("content data output", "result.text, or result.value"),
        ("artifact metadata", "result.details"),
        ("ok success", "not result.is_error"),
    )

_new = tuple.__new__  # the constructor takes twice the time, and unpacking the other fields takes longer, too
_OTHERS = ToolResult()[6:]  # the fields of a result after its exception


@check_methods(MEDIA_HINTS)
@dataclass(frozen=True)
class Image:
    """An image, for a model that supports images.

    Attributes:
        data: Content of the file.
        media_type: IANA media type, such as `image/png`.

    Raises:
        TypeError: The data are not bytes.
        ValueError: The media type is malformed.
    """

    data: bytes
    media_type: str = "image/png"

    def __post_init__(self) -> None:
        _validate_attachment(self)

    def __repr__(self) -> str:
        return f"<Image of {len(self.data)} bytes, {self.media_type}>"

    def _repr_html_(self) -> str:
        return render(self, "cards.render_picture")


@check_methods(MEDIA_HINTS)
@dataclass(frozen=True)
class File:
    """A document, for a model that supports files.

    Attributes:
        data: Content of the file.
        media_type: IANA media type. Most providers accept `application/pdf`.
        name: Name that the model sees, such as `report.pdf`.

    Raises:
        TypeError: The data are not bytes.
        ValueError: The media type is malformed.
    """

    data: bytes
    media_type: str = "application/pdf"
    name: str = "file"

    def __post_init__(self) -> None:
        _validate_attachment(self)
        object.__setattr__(self, "name", replace_surrogates(self.name) or "file")

    def __repr__(self) -> str:
        return f"<File {self.name!r} of {len(self.data)} bytes, {self.media_type}>"


def _validate_attachment(attachment: Image | File) -> None:
    kind = type(attachment).__name__
    data = attachment.data
    media_type = attachment.media_type
    if not isinstance(data, bytes):
        raise TypeError(f"{kind} takes the bytes of a file, as Path.read_bytes() returns them, not {data!r:.100}.")
    if not isinstance(media_type, str) or not re.fullmatch(r"[\w.+-]+/[\w.+-]+(;[ -~]*)?", media_type, re.ASCII):
        raise ValueError(f"{kind}: {media_type!r:.100} is not a media type, such as 'image/png'.")


def make_message(call: ToolCall, result: ToolResult) -> ToolMessage:
    """Make the message of a call's result; `ToolMessage.to_result` is the inverse."""
    return ToolMessage(
        call_id=call.id,
        provider_call_id=call.provider_call_id,
        name=call.name,
        text=result.text,
        is_error=result.is_error,
        images=result.images,
        files=result.files,
    )


def make_refusal(why: str) -> ToolResult:
    """Make the result of a call that does not run, or whose own result is not known."""
    return ToolResult(text=why, error=why, kind="cancelled")


def refuse_call(call: ToolCall, why: str) -> ToolMessage:
    """Make the message of a call that does not run, or whose own result is not known."""
    return make_message(call, make_refusal(why))


def collect_attachments(results: Iterable[ToolResult | ToolMessage]) -> list[UserMessage]:
    """Make one user message of all images and files of results, for providers whose tool messages hold only text.

    The list is empty if the results have neither.
    """
    results = list(results)
    images = tuple(image for result in results for image in result.images)
    files = tuple(file for result in results for file in result.files)
    text = FILES_TEXT if files else IMAGES_TEXT
    return [UserMessage(text, images, files)] if images or files else []


def get_last_calls(messages: Sequence[Message]) -> tuple[ToolCall, ...]:
    """Return the calls of the last message, or none if that is not a response of the model."""
    last = messages[-1] if messages else None
    return last.calls if isinstance(last, ModelResponse) else ()


def get_open_calls(messages: Sequence[Message], results: Sequence[ToolMessage]) -> tuple[ToolCall, ...]:
    """Return the calls of the last message that have no result."""
    done = {result.call_id for result in results}
    return tuple([call for call in get_last_calls(messages) if call.id not in done])


def replace_surrogates(text: str) -> str:
    """Join surrogate pairs, and replace unpaired surrogates, which UTF-8 cannot encode."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


_KINDS: Mapping[str, type[Message]] = {
    "system": SystemMessage,
    "user": UserMessage,
    "model": ModelResponse,
    "tool": ToolMessage,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}


def message_to_dict(message: Message) -> dict[str, Any]:
    """Convert a message to JSON-able data; `message_from_dict` is the inverse."""
    return {"kind": _NAMES[type(message)], **_fields_to_json(message)}


def _fields_to_json(value: Any) -> dict[str, Any]:
    return {name: item if type(item) in _PLAIN else _to_json(item) for name, item in vars(value).items()}


_PLAIN = frozenset({str, int, float, bool, NoneType})


def _to_json(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_to_json(item) for item in value]
    if isinstance(value, (ToolCall, Usage, Image, File)):
        return _fields_to_json(value)
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


def make_plain(value: Any) -> Any:
    """Convert a value of any type to JSON data."""
    from pydantic_core import to_jsonable_python  # slow to load, and not needed for messages

    try:
        return to_jsonable_python(value, bytes_mode="base64", fallback=str)
    except Exception:  # noqa: BLE001  the user's code runs here, and may raise anything
        return f"<{type(value).__name__}>"


def write_output(value: Any) -> str:
    """Return the answer of a run as text: None as an empty text, a value that is not text as JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(clean_json(make_plain(value)), ensure_ascii=False)


def clean_json(value: Any) -> Any:
    """Replace values that strict JSON in UTF-8 cannot express: unpaired surrogates, NaN and infinities."""
    if isinstance(value, str):
        return replace_surrogates(value)
    if isinstance(value, dict):
        return {replace_surrogates(key): clean_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return list(map(clean_json, value))
    return json.dumps(value) if isinstance(value, float) and not isfinite(value) else value


def message_from_dict(data: Mapping[str, Any]) -> Message:
    """Make a message from the output of `message_to_dict`. Null counts as missing.

    Raises:
        KeyError: The kind of message is unknown.
        TypeError: A field is not of its type.
        ValueError: An attachment is not in the form of `message_to_dict`.
    """
    given = {key: value for key, value in data.items() if key != "kind" and value is not None}
    values = {key: _READERS[key](value) if key in _READERS else value for key, value in given.items()}
    return _require_types(_KINDS[data["kind"]](**values))


_READERS: Mapping[str, Callable[[Any], Any]] = {
    "usage": lambda usage: _require_types(Usage(**usage)),
    "calls": lambda calls: tuple(map(ToolCall.from_dict, calls)),
    "images": lambda images: tuple(_read_attachment(Image, *each) for each in enumerate(images)),
    "files": lambda files: tuple(_read_attachment(File, *each) for each in enumerate(files)),
    "items": lambda items: tuple(dict(item) for item in items),
    "repairs": lambda texts: _read_texts("repairs", texts),
    "foreign": lambda names: _read_texts("foreign", names),
}
_PLAIN_TYPES: Mapping[str, Any] = {"str": str, "bool": bool, "int": int, "float": (int, float)}


def _require_types(value: T) -> T:
    """Return a value whose plain fields are of the types that they declare."""
    for declared in fields(value):  # type: ignore[arg-type]  # it is a dataclass
        given = getattr(value, declared.name)
        wanted = _PLAIN_TYPES.get(str(declared.type))
        if wanted and not (isinstance(given, wanted) and isinstance(given, bool) is (wanted is bool)):
            raise TypeError(f"{declared.name}={given!r:.100} is not of type {declared.type}")
    return value


def _require_texts(values: Mapping[str, object]) -> None:
    for name, value in values.items():
        if type(value) is not str:
            raise TypeError(f"{name}={value!r:.100} is not text")


def _read_texts(name: str, texts: Any) -> tuple[str, ...]:
    _require_texts({f"{name}[{place}]": text for place, text in enumerate(texts)})
    return tuple(texts)


def _read_attachment(kind: type[Any], number: int, given: Any) -> Any:
    try:
        return kind(**{**given, "data": base64.b64decode(given["data"], validate=True)})
    except (TypeError, KeyError, ValueError) as error:
        raise ValueError(f"{kind.__name__.lower()}s[{number}]: {error!r}") from error


# Meta keys: a model writes them beside a call's arguments, and they are not passed to the tool.
TOOL = "_tool"
ACTIVITY = "_activity"
REASONING = "_reasoningForCall"
OUTPUT = "_output"
INSTANCE = "_instance"
OUTPUT_PATH = "_outputPath"
MODULE = "_module"
IMPORTS = "_imports"

# All meta keys, in the order in which a schema lists them before the arguments.
META = (TOOL, ACTIVITY, MODULE, IMPORTS, INSTANCE, OUTPUT_PATH, REASONING, OUTPUT)
