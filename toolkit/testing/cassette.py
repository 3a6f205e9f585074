"""A model whose answers are recorded in a file, and replayed from it."""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import re
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast, get_args

from typing_extensions import Self

from toolkit._messages import (
    Message,
    ModelRequest,
    ModelResponse,
    ToolSpec,
    check_fields,
    clean_json,
    make_plain,
    message_from_dict,
    message_to_dict,
)
from toolkit.middleware import make_cleaner
from toolkit.models import Model, Piece
from toolkit.testing.scripted import ScriptError, split_response

Mode: TypeAlias = Literal["record", "replay", "auto"]

# Increased when the format of the file changes.
VERSION = 1
# What differs from run to run and no model is sent, or what a response that is recorded before has.
UNSTABLE = frozenset({"call_id", "finish_reason", "id", "is_answer", "items", "model", "provider_call_id", "timestamp"})
UNSTABLE |= {"usage", "wire_arguments"}
PARTS = ("messages", "tools", "output", "choice", "allowed")


class Cassette:
    """A model that records the answers of another one in a file, and replays them without it. Tools run as ever.

    A request is compared with those in the file by its messages and tools; each record answers one request. Ids and
    times are not compared. A stream is replayed word by word. Leaving the `with` block in the mode "replay" raises
    `ScriptError` if records are unused.

    Args:
        path: The file, in JSON. It holds what was sent and answered, but for what is scrubbed: no address, no headers.
        model: The model that is recorded; not needed to replay.
        mode: "replay" asks no model; "record" asks it for everything, and writes the file anew; "auto" asks it for what
            is not in the file, and adds that.
        secrets: Secret texts that are not written, found as `redact` finds them.
        patterns: Regular expressions of further such texts.
        scrub: Changes every text that is written or compared: takes away what differs from day to day, for example. It
            must leave alone what it has scrubbed.

    Raises:
        ScriptError: There is no file to replay.
        TypeError: There is no model to record.
        ValueError: The file is no cassette, or there is no such mode.

    Examples:
        >>> import tempfile
        >>> from toolkit import Runner
        >>> from toolkit.testing import ScriptedModel
        >>> path = tempfile.mkdtemp() + "/greeting.json"
        >>> with Cassette(path, ScriptedModel(["Hello."]), mode="record") as model:
        ...     recorded = Runner(model=model).run("Hi!").output
        >>> with Cassette(path) as model:
        ...     Runner(model=model).run("Hi!").output
        'Hello.'
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        model: Model | None = None,
        *,
        mode: Mode = "replay",
        secrets: Iterable[str] = (),
        patterns: Iterable[str | re.Pattern[str]] = (),
        scrub: Callable[[str], str] | None = None,
    ) -> None:
        if mode not in get_args(Mode):
            raise ValueError(f'mode={mode!r} is not "record", "replay" or "auto".')
        if not isinstance(model, Model) and (model is not None or mode != "replay"):
            raise TypeError(f'mode={mode!r} needs a model to ask: Cassette("path.json", OpenAIModel(client, "name")).')
        self.path = Path(path)
        self.mode = mode
        # Without a model, a request that is not found is an error.
        self._model: Any = None if mode == "replay" else model
        self._clean, self._scrub = make_cleaner(secrets, patterns), scrub
        self._lock = threading.Lock()
        self._name = "" if model is None else model.name
        self._records: list[dict[str, Any]] = []
        self._unused: list[int] = []  # positions of records
        if mode == "replay" and not self.path.exists():
            raise ScriptError(f'There is no cassette {self.path}. Record it: Cassette(path, model, mode="record").')
        if mode != "record" and self.path.exists():
            self._load()

    @property
    def name(self) -> str:
        """The name of the model, or of the one that was recorded."""
        return self._name

    @property
    def is_async(self) -> bool:
        """Whether the model needs an event loop; a replay never does."""
        return bool(self._model and self._model.is_async)

    async def complete(self, request: ModelRequest) -> ModelResponse:
        """Answer a request from the file, or record the model's answer.

        Raises:
            ScriptError: The request is not in the file; the message has the difference.
            ModelError: The model that is recorded gave no answer. Nothing is recorded then.
        """
        asked = self._describe(request)
        if found := self._find(asked, request):
            return found
        response: ModelResponse = await self._model.complete(request)
        self._record(asked, request, response)
        return response

    async def stream(self, request: ModelRequest) -> AsyncIterator[Piece]:
        """Answer a request in pieces; the last one is the whole answer.

        Raises:
            ScriptError: As for `complete`.
            ModelError: As for `complete`.
        """
        asked = self._describe(request)
        if found := self._find(asked, request):
            for piece in split_response(found):
                yield piece
            return
        async with aclosing(self._model.stream(request)) as pieces:
            async for piece in pieces:
                if isinstance(piece, ModelResponse):
                    self._record(asked, request, piece)
                yield piece

    def check(self) -> None:
        """Check that every record was used.

        Raises:
            ScriptError: Some were not.
        """
        if self._unused:
            first = self._records[self._unused[0]]["request"]["messages"][-1:]
            raise ScriptError(
                f"{len(self._unused)} of {len(self._records)} requests in {self.path} were not made. The first one "
                f"ends in:\n" + "\n".join(_list_lines(first))
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None and self.mode == "replay":
            self.check()

    def __repr__(self) -> str:
        return f"<Cassette {self.path}, mode={self.mode!r}>"

    def _load(self) -> None:
        try:
            data = json.loads(self.path.read_text(encoding="utf-8"))
            if data["version"] != VERSION:
                raise ValueError(f"it is of version {data['version']!r}, and this library reads {VERSION}")  # noqa: TRY301  as if read
            self._records = [*data["records"]]
            for record in self._records:
                check_fields(_read_response(record))
                if not isinstance(record["request"]["messages"], list):
                    raise TypeError("the messages of a request are no list")  # noqa: TRY301  as above
            self._name = self._name or str(data["model"])
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise ValueError(f"{self.path} is no cassette: {type(error).__name__}: {error}") from error
        self._unused = [*range(len(self._records))]

    def _describe(self, request: ModelRequest) -> dict[str, Any]:
        """Return what a request is compared by, and written as."""
        data = {
            "messages": [*map(_describe_message, request.messages)],
            "tools": [*map(_describe_tool, request.tools)],
            "output": request.output and _describe_tool(request.output.spec),
            "choice": request.choice,
            "allowed": request.allowed and sorted(request.allowed),
        }
        cleaned: dict[str, Any] = self._clean_texts(
            clean_json({name: value for name, value in data.items() if value is not None})
        )
        return cleaned

    def _clean_texts(self, value: Any) -> Any:
        if isinstance(value, str):
            text = self._clean(value)
            scrubbed = text if self._scrub is None else self._scrub(text)
            if not isinstance(scrubbed, str):
                raise TypeError(f"scrub= returned {scrubbed!r:.100}, and not a text.")
            return scrubbed
        if isinstance(value, list):
            return [*map(self._clean_texts, value)]
        if isinstance(value, dict):
            return {name: self._clean_texts(item) for name, item in value.items()}
        return value

    def _find(self, asked: Mapping[str, Any], request: ModelRequest) -> ModelResponse | None:
        """Return the recorded response to a request; None where the model is to be asked.

        Raises:
            ScriptError: There is none, and no model to ask.
        """
        key = _write_key(asked)
        with self._lock:
            place = next((each for each in self._unused if _write_key(self._records[each]["request"]) == key), None)
            if place is None and self._model is None:
                raise ScriptError(self._explain(asked))
            if place is None:
                return None
            self._unused.remove(place)
        if request.output and self._records[place].get("output_by_tool"):
            request.output.by_tool = True  # as the model found out while it was recorded
        return _read_response(self._records[place])

    def _record(self, asked: dict[str, Any], request: ModelRequest, response: ModelResponse) -> None:
        answer = self._clean_texts(clean_json(_drop_empty(message_to_dict(response))))
        answer.pop("kind")
        record: dict[str, Any] = {"request": asked, "response": answer}
        if request.output and request.output.by_tool:
            record["output_by_tool"] = True
        with self._lock:
            self._records.append(record)
            text = {"version": VERSION, "model": self._name, "records": self._records}
            self.path.parent.mkdir(parents=True, exist_ok=True)
            partial = self.path.with_name(f"{self.path.name}.partial")
            partial.write_text(json.dumps(text, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
            partial.replace(self.path)  # a process that dies meanwhile leaves the old file whole

    def _explain(self, asked: Mapping[str, Any]) -> str:
        """Explain why no record fits, by the one that has most of the first messages in common."""
        if not self._unused:
            last = "\n".join(_list_lines(asked["messages"][-1:]))
            return f"All {len(self._records)} records of {self.path} are used, and there is one more request:\n{last}"
        place = max(self._unused, key=lambda each: _count_common(self._records[each]["request"], asked))
        differences = "\n".join(_list_differences(self._records[place]["request"], asked))
        return (
            f"The request differs from record {place + 1} of {len(self._records)} in {self.path} (- recorded, + now):\n"
            f'{differences}\nIf this is meant, record it again: mode="record".'
        )


def _describe_message(message: Message) -> dict[str, Any]:
    data = _drop_empty({name: value for name, value in message_to_dict(message).items() if name not in UNSTABLE})
    if "calls" in data:
        data["calls"] = [{name: call[name] for name in call if name not in UNSTABLE} for call in data["calls"]]
    for name in data.keys() & {"images", "files"}:
        data[name] = [{**part, "data": _hash(part["data"])} for part in data[name]]
    return data


def _describe_tool(spec: ToolSpec) -> dict[str, Any]:
    data = {"name": spec.name, "description": spec.description, "parameters": make_plain(dict(spec.parameters))}
    options = {"strict": spec.strict, "namespace": spec.namespace, "defer_loading": spec.defer_loading or None}
    return data | {name: value for name, value in options.items() if value is not None}


def _drop_empty(message: dict[str, Any]) -> dict[str, Any]:
    """Leave out the fields of a message, and of its calls, that hold nothing."""
    full = {name: value for name, value in message.items() if value or name in ("kind", "text")}
    if "calls" in full:
        full["calls"] = [{name: value for name, value in call.items() if value} for call in full["calls"]]
    return full


def _hash(data: str) -> str:
    return f"sha256:{hashlib.sha256(data.encode()).hexdigest()}"


def _read_response(record: Mapping[str, Any]) -> ModelResponse:
    return cast("ModelResponse", message_from_dict({**record["response"], "kind": "model"}))


def _write_key(request: Mapping[str, Any]) -> str:
    return json.dumps(request, sort_keys=True)


def _count_common(recorded: Mapping[str, Any], asked: Mapping[str, Any]) -> int:
    pairs = zip(recorded["messages"], asked["messages"])
    return next((number for number, (one, other) in enumerate(pairs) if one != other), len(asked["messages"]))


def _list_differences(recorded: Mapping[str, Any], asked: Mapping[str, Any]) -> Iterator[str]:
    for part in PARTS:
        old, new = ([*_list_lines(each[part])] if part in each else [] for each in (recorded, asked))
        if old != new:
            _, _, *lines = difflib.unified_diff(old, new, lineterm="")
            yield f"{part}:"
            yield from ("  ..." if line.startswith("@@") else f"  {line}" for line in lines)


def _list_lines(value: Any) -> Iterator[str]:
    """Write JSON data for people, long texts line by line."""
    if isinstance(value, dict):
        for name, item in value.items():
            first, *rest = [*_list_lines(item)] or ["{}" if item == {} else "[]"]
            is_nested = isinstance(item, (dict, list)) or rest
            yield f"{name}:" if is_nested else f"{name}: {first}"
            yield from (f"  {line}" for line in (first, *rest) if is_nested)
    elif isinstance(value, list):
        for item in value:
            first, *rest = [*_list_lines(item)] or ["{}" if item == {} else "[]"]
            yield f"- {first}"
            yield from (f"  {line}" for line in rest)
    elif isinstance(value, str):
        yield from map(repr, value.splitlines(keepends=True) or [""])
    else:
        yield json.dumps(value)
