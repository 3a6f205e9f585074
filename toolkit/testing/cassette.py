"""The answers of a model, and the results of tools, recorded in a file and replayed from it."""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import re
import threading
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast, get_args

from typing_extensions import Self

from toolkit._concurrency.backend import close_iterator
from toolkit._execution.dispatcher import Next
from toolkit._guards.redaction import make_cleaner
from toolkit._messages import (
    Message,
    ModelRequest,
    ModelResponse,
    ToolCall,
    ToolResult,
    ToolSpec,
    clean_json,
    make_plain,
    message_from_dict,
    message_to_dict,
)
from toolkit._schema.json_text import load_if_json
from toolkit._tools.results import explain_exception
from toolkit.errors import ToolError
from toolkit.models import Model, Piece
from toolkit.testing.scripted import ScriptError, split_response

Mode: TypeAlias = Literal["record", "replay", "auto"]

VERSION = 1  # increased when the format of the file changes
# Fields of messages that are not compared: they are not sent to a model, or they repeat a recorded response.
UNSTABLE = frozenset({"call_id", "finish_reason", "id", "is_answer", "is_cut", "items", "model", "provider_call_id"})
UNSTABLE |= {"reasoning_key", "timestamp", "usage", "wire_arguments"}
PARTS = ("messages", "tools", "output", "choice", "allowed", "name", "arguments")
# Kinds of results that are not recorded: the same call may be answered later.
OPEN = ("cancelled", "pending", "stopped")


@dataclass
class _Track:
    """The records of requests, or those of calls, and which of them are unused."""

    kind: str  # "request" or "call"; also the key of a record that has the request or call
    records: list[dict[str, Any]] = field(default_factory=list)  # as they are in the file
    unused: list[int] = field(default_factory=list)  # positions

    def take(self, description: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the first unused record that fits, and mark it as used."""
        key = _write_key(description)
        position = next((each for each in self.unused if _write_key(self.records[each][self.kind]) == key), None)
        if position is None:
            return None
        self.unused.remove(position)
        return self.records[position]

    def explain_mismatch(self, description: Mapping[str, Any], path: Path) -> str:
        """Explain why no record fits, by the differences from the first unused one."""
        if not self.unused:
            last = "\n".join(_list_lines(_get_end(description)))
            return (
                f"All {len(self.records)} {self.kind}s of {path} are used, and there is one more {self.kind}:\n{last}"
            )

        first = self.unused[0]
        differences = "\n".join(_list_differences(self.records[first][self.kind], description))
        return (
            f"The {self.kind} differs from record {first + 1} of {len(self.records)} in {path} (- recorded, + now):\n"
            f'{differences}\nIf this is meant, record it again: mode="record", or, with the fixture `cassette`, '
            "pytest --cassettes=record."
        )


class Cassette:
    """A model that records the answers of another model in a file, and replays them without it.

    Requests are compared by their messages and tools, without ids and times. Each record answers one request. A stream
    is replayed word by word. In the mode "replay", the `with` block raises `ScriptError` at its end if records are
    unused.

    Tools run as usual, unless the cassette is also a middleware of the runner: `middleware=[cassette]` records and
    replays the results of calls, by the tool's name and the arguments. A replayed call passes no gate, and its value is
    plain data. A cassette that is only a middleware needs no model.

    Args:
        path: The file, in JSON. It has the redacted requests and answers, but no address or headers of the server.
        model: The model to record. Not needed for a replay, or to record only the results of tools.
        mode: "replay" asks no model. "record" asks the model for all answers, and replaces the file. "auto" asks the
            model for the answers that are not in the file, and adds them.
        secrets: Secret texts, redacted from the file as by `redact`.
        patterns: Regular expressions of further secrets, and of texts that change each day, such as dates.

    Raises:
        ScriptError: There is no file to replay.
        TypeError: `model` is not a model.
        ValueError: The file is not a cassette, or there is no such mode.

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
    ) -> None:
        if mode not in get_args(Mode):
            raise ValueError(f'mode={mode!r} is not "record", "replay" or "auto".')
        if not isinstance(model, Model) and model is not None:
            raise TypeError(
                f'{model!r:.100} is not a model. Pass one: Cassette("path.json", OpenAIModel(client, "name")).'
            )

        self.path: Path = Path(path)
        self.mode = mode
        # Without a model, a request that is not found is an error.
        self._model: Any = None if mode == "replay" else model
        self._clean = make_cleaner(secrets, patterns)
        self._lock = threading.Lock()
        self.name: str = "" if model is None else model.name
        self._requests = _Track("request")
        self._calls = _Track("call")
        if mode == "replay" and not self.path.exists():
            raise ScriptError(
                f'There is no cassette {self.path}. Record it: Cassette(path, model, mode="record"), or, with the '
                "fixture `cassette`, pytest --cassettes=record."
            )

        if mode != "record" and self.path.exists():
            self._load_file()

    @property
    def is_async(self) -> bool:
        """True if the model needs an event loop. A replay never does."""
        return bool(self._model and self._model.is_async)

    async def complete(self, request: ModelRequest) -> ModelResponse:
        """Answer a request from the file, or record the model's answer.

        Raises:
            ScriptError: The file to replay has no such request; the message shows the difference.
            ModelError: The recorded model failed. Nothing is recorded then.
            TypeError: There is no model to record.
        """
        description = self._describe_request(request)
        if found := self._find_response(description, request):
            return found
        response: ModelResponse = await self._model.complete(request)
        self._record_response(description, request, response)
        return response

    async def stream(self, request: ModelRequest) -> AsyncIterator[Piece]:
        """Answer a request in pieces. The last one is the whole answer.

        Raises:
            ScriptError: As for `complete`.
            ModelError: As for `complete`.
            TypeError: As for `complete`.
        """
        description = self._describe_request(request)
        if found := self._find_response(description, request):
            for piece in split_response(found):
                yield piece
            return
        pieces = self._model.stream(request)

        try:
            async for piece in pieces:
                if isinstance(piece, ModelResponse):
                    self._record_response(description, request, piece)
                yield piece
        finally:
            await close_iterator(pieces)

    async def __call__(self, call: ToolCall, call_next: Next) -> ToolResult:
        """Answer a call from the file, or record its result, as a middleware.

        Raises:
            ScriptError: The file to replay has no such call; the message shows the difference.
        """
        description = self._clean_texts(clean_json({"name": call.name, "arguments": load_if_json(call.arguments)}))
        if record := self._find_record(self._calls, description):
            return ToolResult.from_json(json.dumps(record["result"]))
        try:
            result = await call_next(call)
        except ToolError as refusal:
            self._record_result(description, explain_exception(refusal, call.name))
            raise
        self._record_result(description, result)
        return result

    def check(self) -> None:
        """Check that every record was used.

        Raises:
            ScriptError: Records are unused.
        """
        for track in (self._requests, self._calls):
            if track.unused:
                first = "\n".join(_list_lines(_get_end(track.records[track.unused[0]][track.kind])))
                raise ScriptError(
                    f"{len(track.unused)} of {len(track.records)} {track.kind}s in {self.path} were not made. "
                    f"The first one ends in:\n{first}"
                )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None and self.mode == "replay":
            self.check()

    def __repr__(self) -> str:
        return f"<Cassette {self.path}, mode={self.mode!r}>"

    def _load_file(self) -> None:
        try:
            data = json.loads(self.path.read_text(encoding="utf-8"))
            version = data["version"]
            requests = [*data["records"]]
            calls = [*data.get("calls", ())]
            self.name = self.name or str(data["model"])
        except (ValueError, TypeError, KeyError) as error:
            raise ValueError(f"{self.path} is not a cassette: {type(error).__name__}: {error}") from error

        if version != VERSION:
            raise ValueError(
                f"{self.path} is a cassette of version {version!r}, and this library reads {VERSION}. Record it again."
            )
        for track, records in (self._requests, requests), (self._calls, calls):
            track.records = records
            track.unused = [*range(len(records))]

    def _describe_request(self, request: ModelRequest) -> dict[str, Any]:
        """Return the part of a request that is compared, and written to the file."""
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
            return self._clean(value)
        if isinstance(value, list):
            return [*map(self._clean_texts, value)]
        if isinstance(value, dict):
            return {name: self._clean_texts(item) for name, item in value.items()}
        return value

    def _find_record(self, track: _Track, description: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the record that fits, or None if it has to be recorded."""
        with self._lock:
            record = track.take(description)
            if record is None and self.mode == "replay":
                raise ScriptError(track.explain_mismatch(description, self.path))
            return record

    def _find_response(self, description: Mapping[str, Any], request: ModelRequest) -> ModelResponse | None:
        record = self._find_record(self._requests, description)
        if record is None:
            if self._model is None:
                raise TypeError(f"{self!r} has no model to ask: Cassette(path, model, mode={self.mode!r}).")
            return None
        if request.output and record.get("output_by_tool"):
            request.output.by_tool = True  # the recorded model had to use the tool
        return _read_response(record)

    def _record_response(self, description: dict[str, Any], request: ModelRequest, response: ModelResponse) -> None:
        answer = self._clean_texts(clean_json(_drop_empty(message_to_dict(response))))
        answer.pop("kind")
        record: dict[str, Any] = {"request": description, "response": answer}
        if request.output and request.output.by_tool:
            record["output_by_tool"] = True
        self._add_record(self._requests, record)

    def _record_result(self, description: dict[str, Any], result: ToolResult) -> None:
        if result.kind not in OPEN:
            cleaned = self._clean_texts(json.loads(result.to_json()))
            self._add_record(self._calls, {"call": description, "result": cleaned})

    def _add_record(self, track: _Track, record: dict[str, Any]) -> None:
        with self._lock:
            track.records.append(record)
            data = {"version": VERSION, "model": self.name, "records": self._requests.records}
            if self._calls.records:
                data["calls"] = self._calls.records
            self.path.parent.mkdir(parents=True, exist_ok=True)
            partial = self.path.with_name(f"{self.path.name}.partial")
            partial.write_text(json.dumps(data, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
            partial.replace(self.path)  # a process that dies meanwhile leaves the old file whole


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
    """Drop the empty fields of a message, and of its calls."""
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


def _get_end(description: Mapping[str, Any]) -> Any:
    """Return the part that best identifies a request or call: the last message, or the call itself."""
    return description["messages"][-1:] if "messages" in description else dict(description)


def _list_differences(recorded: Mapping[str, Any], description: Mapping[str, Any]) -> Iterator[str]:
    for part in PARTS:
        old, new = (_list_lines(each[part]) if part in each else [] for each in (recorded, description))
        if old != new:
            _, _, *lines = difflib.unified_diff(old, new, lineterm="")
            yield f"{part}:"
            yield from ("  ..." if line.startswith("@@") else f"  {line}" for line in lines)


def _list_lines(value: Any) -> list[str]:
    """Write JSON data for people, texts line by line."""
    return json.dumps(value, indent=2, ensure_ascii=False).replace(r"\n", "\\n\n").splitlines()
