"""What is said between a run and a model: frozen values, the same for every provider."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple, TypeAlias

from typing_extensions import Self

from toolkit._concurrency.cancellation import Cancellation
from toolkit.brief import Brief
from toolkit.errors import ToolError
from toolkit.parts import File, Image
from toolkit.specs import OutputSpec, ToolSpec


@dataclass(frozen=True, kw_only=True, repr=False)
class ToolCall(Brief):
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
        return cls(**{**data, "imports": tuple(imports)}).checked()

    def checked(self) -> Self:
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
        told = vars(self.checked())
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
    def failed(cls, error: ToolError, exception: BaseException | None = None) -> ToolResult:
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
class SystemMessage(Brief):
    """Instructions that stand above the conversation."""

    text: str


@dataclass(frozen=True, repr=False)
class UserMessage(Brief):
    """What the user says."""

    text: str
    images: tuple[Image, ...] = ()
    files: tuple[File, ...] = ()


@dataclass(frozen=True, kw_only=True, repr=False)
class ModelResponse(Brief):
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
class ToolMessage(Brief):
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


def attached(results: Iterable[ToolResult | ToolMessage]) -> list[UserMessage]:
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
class Answered:
    """A call that has its result.

    Attributes:
        place: Where it stands among the calls of its answer, from 0.
    """

    place: int
    call: ToolCall
    told: ToolMessage
