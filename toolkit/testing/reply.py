"""What a fake server answers: good, bad, or broken off."""

from __future__ import annotations

import reprlib
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from toolkit.testing import items as responses
from toolkit.testing import wire

End: TypeAlias = Literal["whole", "cut", "reset", "held"]


@dataclass(frozen=True, kw_only=True)
class Reply:
    """One scripted answer; the participles return a changed copy.

    Counts of bytes are bytes of the body. A connection that is cut, reset or held serves no further request.
    """

    label: str
    render: Callable[[wire.Ask], wire.Payload]
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)  # names in lower case
    delay: float = 0.0  # seconds before the status line
    slice: int = sys.maxsize  # bytes per write
    pause: float = 0.0  # seconds after each write
    end: End = "whole"
    end_at: int | None = sys.maxsize  # None: before the status line
    bare: bool = False  # the body is the whole answer: no status line, no framing

    @staticmethod
    def text(
        text: str, *, finish_reason: str | None = "stop", usage: tuple[int, int] | None = (1, 1), split: int = 8
    ) -> Reply:
        """Answer with text, as JSON or as SSE, whichever the request wants.

        Args:
            text: The message's content.
            finish_reason: Any word, fitting or not; None is sent as null.
            usage: Prompt and completion tokens; None is sent as null.
            split: Characters per SSE delta.
        """
        completion = wire.Completion(text=text, calls=(), finish_reason=finish_reason, usage=usage, split=split)
        return Reply(label=f"text({reprlib.repr(text)})", render=_writer(completion))

    @staticmethod
    def calls(
        *calls: wire.CallSpec,
        text: str | None = None,
        finish_reason: str | None = "tool_calls",
        usage: tuple[int, int] | None = (1, 1),
        split: int = 8,
    ) -> Reply:
        """Answer with tool calls, each a name, its arguments and, if you like, its id.

        Arguments given as text go out as they are, broken or not. Without an id a call gets `call_1`, `call_2` and so
        on, counted over the server's life; an id of None is sent as null. The options are those of `text`.
        """
        completion = wire.Completion(text=text, calls=calls, finish_reason=finish_reason, usage=usage, split=split)
        return Reply(label=f"calls({', '.join(call[0] for call in calls)})", render=_writer(completion))

    @staticmethod
    def output(
        *items: Mapping[str, Any],
        finish_reason: str | None = "stop",
        usage: tuple[int, int] | None = (1, 1),
        split: int = 8,
    ) -> Reply:
        """Answer with items of Responses, such as thoughts, as they are; Chat Completions have no such thing.

        The options are those of `text`; with "length" or "content_filter" the response is incomplete.
        """
        completion = wire.Completion(
            text=None, calls=(), finish_reason=finish_reason, usage=usage, split=split, items=items
        )
        return Reply(label=f"output({', '.join(str(i.get('type')) for i in items)})", render=_writer(completion))

    @staticmethod
    def error(
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """Answer with an error in OpenAI's form."""
        kind = "server_error" if status // 100 == 5 else "invalid_request_error"
        error = {"message": message, "type": kind, "param": param, "code": code}
        answer = Reply.body({"error": error}, status=status, headers=headers)
        return replace(answer, label=f"error({status}, {reprlib.repr(message)})")

    @staticmethod
    def body(value: Any, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Reply:
        """Answer with one JSON value, whatever the request wants."""
        answer = Reply.raw(wire.json_bytes(value), status=status, headers=headers)
        return replace(answer, label=f"body({reprlib.repr(value)})")

    @staticmethod
    def raw(
        content: bytes | Iterable[bytes],
        *,
        content_type: str = "application/json",
        status: int = 200,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """Answer with these bytes; an iterable is sent lazily, one HTTP chunk and one write for each item."""
        payload = wire.Payload(content=content, content_type=content_type)
        lower = {name.lower(): value for name, value in (headers or {}).items()}
        return Reply(label=f"raw({reprlib.repr(content)})", render=lambda _: payload, status=status, headers=lower)

    @staticmethod
    def chunks(chunks: Iterable[Mapping[str, Any] | bytes], *, done: bool = True) -> Reply:
        r"""Answer with SSE events, whatever the request wants.

        A mapping is a whole chunk (`{"choices": [...]}`); `id`, `object`, `created` and `model` are added where it has
        none. Bytes go out as they are: write their `data: ` and `\n\n` yourself. `done` adds `data: [DONE]`. In
        Responses a mapping is a whole event (`{"type": "response.created", ...}`), and nothing is added.
        """
        return Reply(label=f"chunks({reprlib.repr(chunks)})", render=lambda ask: wire.events(ask, chunks, done=done))

    @staticmethod
    def verbatim(content: bytes) -> Reply:
        """Answer with nothing but these bytes, status line and all, then close the connection."""
        return replace(Reply.raw(content), label=f"verbatim({reprlib.repr(content)})", bare=True, end="cut")

    @staticmethod
    def hang() -> Reply:
        """Never answer; the wait ends when the client leaves or the server closes."""
        return replace(Reply.raw(b"").held(None), label="hang()")

    def delayed(self, seconds: float) -> Reply:
        """Wait before the status line."""
        return replace(self, delay=seconds)

    def dripping(self, bytes_per_write: int, seconds: float) -> Reply:
        """Write the body in slices and wait after each; in SSE every slice is an HTTP chunk of its own."""
        return replace(self, slice=bytes_per_write, pause=seconds)

    def truncated(self, after_bytes: int) -> Reply:
        """End the body early as if it were whole: HTTP shows no fault."""
        return replace(self, render=lambda ask: self.render(ask).shortened(after_bytes))

    def cut(self, after_bytes: int | None = None) -> Reply:
        """Close the connection within the body; None closes before the status line."""
        return replace(self, end="cut", end_at=after_bytes)

    def reset(self, after_bytes: int | None = None) -> Reply:
        """Reset the connection (RST) within the body; None resets before the status line.

        As in life, bytes that the client was too slow to take are lost with the connection.
        """
        return replace(self, end="reset", end_at=after_bytes)

    def held(self, after_bytes: int | None = sys.maxsize) -> Reply:
        """Fall silent within the body, by default after all of it, and keep the connection open.

        None falls silent before the status line.
        """
        return replace(self, end="held", end_at=after_bytes)


def _writer(completion: wire.Completion) -> Callable[[wire.Ask], wire.Payload]:
    """Write a completion in the API that is asked."""
    return lambda ask: responses.written(completion, ask) if ask.api == "responses" else completion.render(ask)


reply = Reply  # lets a script read as the list of replies it is: `reply.text("hi")`
