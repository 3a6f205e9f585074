"""The definitions of tools, compared with those in a file (a lock), or in another process (a fingerprint).

Each difference from a lock says what it means for a model that knows the old definition: `widened` takes all that the
old one took, `narrowed` takes less, `broke` takes something else, `reworded` changes texts alone, which may still
change what a model does.

A fingerprint has digests alone. The definition of a tool is that of its lock, without the module of its function, since
a file may be imported under several names. Its settings join it: what asks for approval, what may be repeated, how long
a call may take.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields, is_dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from toolkit._schema.error_messages import shorten
from toolkit._schema.json_schema import as_list
from toolkit._schema.json_text import escape_confusable, make_digest
from toolkit._tools.options import ToolSettings
from toolkit._tools.tool import Tool, find_instance, name_function
from toolkit.errors import DefinitionError, FingerprintError

VERSION = 1
UPDATE = "lock(..., update=True), or `toolkit lock FILE --update`"
MAX_SHOWN = 80  # characters of a value in a difference

_TEXTS = ("title", "description", "default", "examples", "deprecated")
# Bounds by whether a higher value takes less.
_BOUNDS: Mapping[str, bool] = {
    **dict.fromkeys(("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"), True),
    **dict.fromkeys(("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"), False),
}
_UNIONS = frozenset({"anyOf", "oneOf"})
_CHOICES = {"const": "enum", "oneOf": "anyOf"}
_WIDER_TYPES = {'"integer"': '"number"'}


def describe_tools(tools: Iterable[Tool[..., Any]]) -> dict[str, Any]:
    """Describe tools as plain data: the part that a model sees, the effect and the source of each, with a digest."""
    definitions = {tool.name: _describe_tool(tool) for tool in tools}
    digests = {name: {"digest": make_digest(definition), **definition} for name, definition in definitions.items()}
    return {"version": VERSION, "tools": dict(sorted(digests.items()))}


def check_lock(
    path: str | os.PathLike[str], tools: Iterable[Tool[..., Any]], *, update: bool, remedy: str = UPDATE
) -> None:
    """Check tools against a lock file, or write the file if `update` is set; `remedy` is the way to do so.

    Raises:
        OSError: The file cannot be read or written.
        DefinitionError: The tools differ; the message has one line for each difference, such as
            `add: parameters.b is required now (narrowed)`. Or the file is missing, or is not a lock.
    """
    if update:
        write_lock(path, tools)
    elif not Path(path).exists():
        raise DefinitionError(f"There is no file {os.fspath(path)}. If the tools are right, write it: {remedy}.")
    elif differences := compare_tools(path, tools):
        found = (f"{name}: {line}" for name, lines in differences.items() for line in lines)
        lines = "\n".join(f"  {escape_confusable(line)}" for line in found)
        raise DefinitionError(
            f"The tools are not those of {os.fspath(path)}:\n{lines}\nIf the tools are right, write it again: {remedy}."
        )


def write_lock(path: str | os.PathLike[str], tools: Iterable[Tool[..., Any]]) -> None:
    """Write the definitions of tools to a file.

    Raises:
        OSError: The file cannot be written.
    """
    text = json.dumps(describe_tools(tools), indent=2, ensure_ascii=False)
    Path(path).write_text(f"{text}\n", encoding="utf-8")


def compare_tools(path: str | os.PathLike[str], tools: Iterable[Tool[..., Any]]) -> dict[str, list[str]]:
    """Compare tools with the definitions in a file: the differences of each tool that has any, by its name.

    Raises:
        OSError: The file cannot be read.
        DefinitionError: The file is not a lock.
    """
    new = describe_tools(tools)["tools"]
    try:
        old = _read_lock(path)
        found = {name: [*_compare_tool(old.get(name), new.get(name))] for name in sorted({*old, *new})}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise DefinitionError(
            f"{os.fspath(path)} is not a lock of tools, or is damaged: {type(error).__name__}. Restore it; or delete "
            "it, and write it again."
        ) from None
    return {name: lines for name, lines in found.items() if lines}


def _describe_tool(tool: Tool[..., Any]) -> dict[str, Any]:
    spec = tool._spec
    definition = {
        "title": spec.title,
        "description": spec.description,
        "parameters": spec.parameters,
        "output": spec.output,
        "effect": tool.settings.effect,
        "provider": spec.provider_form,
        "source": tool.origin,
    }
    described: dict[str, Any] = json.loads(json.dumps({key: value for key, value in definition.items() if value}))
    return described


def _read_lock(path: str | os.PathLike[str]) -> dict[str, Any]:
    data = json.loads(Path(path).read_text(encoding="utf-8"))
    tools: dict[str, Any] = data["tools"]
    if data["version"] != VERSION:
        raise DefinitionError(f"{os.fspath(path)} was written by another version. Delete it, and write it again.")
    return tools


def _compare_tool(old: Mapping[str, Any] | None, new: Mapping[str, Any] | None) -> Iterator[str]:
    if old is None:
        yield "is new (widened)"
    elif new is None:
        yield "is gone (broke)"
    elif old["digest"] != new["digest"]:
        lines = [
            *(_describe_change(key, old.get(key), new.get(key), "reworded") for key in ("title", "description")),
            *_compare_schemas("parameters", old.get("parameters", {}), new.get("parameters", {})),
            *_compare_schemas("output", old.get("output"), new.get("output")),
            *(_describe_change(key, old.get(key), new.get(key), "changed") for key in ("effect", "provider", "source")),
        ]
        yield from [*filter(None, lines)] or ["is written otherwise (changed)"]


def _compare_schemas(path: str, old: Any, new: Any) -> Iterator[str]:
    """Compare two schemas, keyword by keyword."""
    if not (isinstance(old, dict) and isinstance(new, dict)):
        yield _describe_change(path, old, new, "changed")
        return
    if _UNIONS.isdisjoint(old) != _UNIONS.isdisjoint(new):
        old = _make_union(old)
        new = _make_union(new)
    old = _write_choices(old)
    new = _write_choices(new)

    for keyword in sorted({*old, *new}):
        if old.get(keyword) != new.get(keyword):
            yield from _compare_keyword(path, keyword, old, new)


def _compare_keyword(path: str, keyword: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    """Compare two schemas in a keyword in which they differ."""
    before = old.get(keyword)
    now = new.get(keyword)
    required = {*new.get("required", ())}
    if keyword in ("properties", "$defs"):
        place = path if keyword == "properties" else f"{path}.$defs"
        yield from _compare_parts(place, before or {}, now or {}, required)
    elif keyword == "items":
        yield from _compare_schemas(f"{path}[]", before, now)
    elif keyword == "required":
        common = old.get("properties", {}).keys() & new.get("properties", {}).keys()
        for name in sorted(({*(before or ())} ^ required) & common):
            change = "required now (narrowed)" if name in required else "optional now (widened)"
            yield f"{path}.{name} is {change}"
    elif keyword == "type" and before and now:
        yield from _compare_choices(f"{path}.type", as_list(before), as_list(now), _WIDER_TYPES)
    elif keyword in ("anyOf", "enum") and before and now:
        yield from _compare_choices(f"{path}.{keyword}", before, now, {})
    else:
        yield _describe_change(f"{path}.{keyword}", before, now, _judge_keyword(keyword, before, now))


def _compare_parts(
    path: str, old: Mapping[str, Any], new: Mapping[str, Any], required: Collection[str]
) -> Iterator[str]:
    for name in sorted({*old, *new}):
        if name not in new:
            yield f"{path}.{name} is gone (broke)"
        elif name not in old:
            change = "new and required (broke)" if name in required else "new (widened)"
            yield f"{path}.{name} is {change}"
        elif old[name] != new[name]:
            yield from _compare_schemas(f"{path}.{name}", old[name], new[name])


def _compare_choices(path: str, old: Iterable[Any], new: Iterable[Any], wider: Mapping[str, str]) -> Iterator[str]:
    """List the choices that were added and removed. `wider` names, for a choice, another choice that includes it."""
    before, now = ({json.dumps(each, sort_keys=True) for each in choices} for choices in (old, new))
    gone = sorted(each for each in before if now.isdisjoint((each, wider.get(each))))
    added = sorted(each for each in now if before.isdisjoint((each, wider.get(each))))
    changes = [
        *(f"lost {shorten(each, MAX_SHOWN)}" for each in gone),
        *(f"gained {shorten(each, MAX_SHOWN)}" for each in added),
    ]
    if changes:
        yield f"{path} {' and '.join(changes)} ({_judge_choices(gone, added)})"


def _judge_choices(gone: Collection[str], added: Collection[str]) -> str:
    """Return what a change of the choices means for calls that were valid before."""
    if not gone:
        return "widened"
    return "broke" if added else "narrowed"


def _make_union(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Write a schema as a union. A schema that is not a union becomes its only alternative."""
    if not _UNIONS.isdisjoint(schema):
        return schema
    texts = {keyword: schema[keyword] for keyword in _TEXTS if keyword in schema}
    return {"anyOf": [{keyword: value for keyword, value in schema.items() if keyword not in texts}], **texts}


def _write_choices(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Write a constant as a choice of one, and each union by the same keyword, so that schemas can be compared."""
    return {_CHOICES.get(key, key): [value] if key == "const" else value for key, value in schema.items()}


def _judge_keyword(keyword: str, old: Any, new: Any) -> str:
    """Return what the change of a keyword means."""
    if keyword in _TEXTS:
        return "reworded"
    if keyword in _BOUNDS and old is not None and new is not None:
        return "narrowed" if (new > old) == _BOUNDS[keyword] else "widened"
    if new is None:
        return "widened"
    return "narrowed" if old is None else "changed"


def _describe_change(path: str, old: Any, new: Any, meaning: str) -> str:
    """Describe a change. Return an empty text if there is none."""
    if old == new:
        return ""

    texts = [json.dumps(value, ensure_ascii=False) for value in (old, new)]
    # If the first difference is far behind the beginning, leave out most of what is equal.
    first_difference = next((place for place, (a, b) in enumerate(zip(*texts)) if a != b), 0)
    start = first_difference - MAX_SHOWN // 4 if first_difference > MAX_SHOWN // 2 else 0
    before, now = (shorten(f"…{text[start:]}" if start else text, MAX_SHOWN) for text in texts)
    if old is None:
        return f"{path} is new: {now} ({meaning})"
    if new is None:
        return f"{path} is gone: {before} ({meaning})"
    return f"{path} was {before}, is {now} ({meaning})"


FINGERPRINT_VERSION = 1
SUB_AGENT = "the sub-agent "  # how the origin of its tool begins
MAX_LISTED = 1_000  # characters of the differences in an error
# Options that say where a call runs, not what it does.
_PLACES = frozenset({"executor", "isolate"})


@dataclass(frozen=True)
class Fingerprint:
    """Digests of a toolbox or runner; `str` is the SHA-256 of all of them, the same in whatever order tools were added.

    Functions count by their names: two gates of one name are the same. `allow`, `ask_when` and `after_foreign` count by
    what they are given, too. No value of a setting can be read from it.

    Attributes:
        tools: Digest of each tool's definition and settings, by name.
        settings: Digest of each setting of the toolbox or runner, by name.
    """

    tools: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of all digests, such as `sha256:5c1f...`."""
        return make_digest(asdict(self))

    def __str__(self) -> str:
        return self.digest

    def find_differences(self, other: Fingerprint) -> list[str]:
        """Return what differs in another fingerprint, one line for each tool or setting. Empty if all is equal."""
        return [
            *_compare("tool ", self.tools, other.tools),
            *_compare("setting ", self.settings, other.settings),
        ]

    def check(self, other: Fingerprint) -> None:
        """Check that another fingerprint is equal.

        Raises:
            FingerprintError: It is not equal. The message names the tools and settings that differ.
        """
        if differences := self.find_differences(other):
            raise FingerprintError(
                f"The two sides have other tools or settings: {shorten('; '.join(differences), MAX_LISTED)}. "
                "Give both the same version of the program."
            )

    def to_json(self) -> str:
        """Write the fingerprint as JSON text."""
        return json.dumps({"version": FINGERPRINT_VERSION, **asdict(self)}, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Fingerprint:
        """Read the output of `to_json`.

        Raises:
            DefinitionError: The text is something else, or of another version.
        """
        try:
            data = json.loads(text)
            version = data.pop("version")
            fingerprint = cls(**data)
            digests = [*fingerprint.tools.values(), *fingerprint.settings.values()]
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise DefinitionError(f"This is not a fingerprint: {error!r}") from None
        if version != FINGERPRINT_VERSION or not all(isinstance(digest, str) for digest in digests):
            raise DefinitionError("This is a fingerprint of another version: give both sides the same library.")
        return fingerprint


def make_fingerprint(tools: Collection[Tool[..., Any]], settings: Mapping[str, Any]) -> Fingerprint:
    """Make the fingerprint of tools and settings. A setting that is None counts as one that is not there.

    Those of a sub-agent are added, with the name of its tool as a prefix.
    """
    given = {name: value for name, value in settings.items() if value is not None}
    digests = {tool.name: _digest_tool(tool) for tool in tools}
    own = {name: make_digest({name: _make_plain(value)}) for name, value in sorted(given.items())}
    for tool in (each for each in tools if each.origin.startswith(SUB_AGENT)):
        inner = find_instance(tool).runner.fingerprint()
        digests |= {f"{tool.name}/{name}": digest for name, digest in inner.tools.items()}
        own |= {f"{tool.name}/{name}": digest for name, digest in inner.settings.items()}
    return Fingerprint(digests, own)


def _digest_tool(tool: Tool[..., Any]) -> str:
    definition = describe_tools([tool])["tools"][tool.name]
    return make_digest(
        {**definition, "digest": "", "source": name_function(tool), "settings": _list_changed(tool.settings)}
    )


def _list_changed(settings: ToolSettings) -> dict[str, Any]:
    """Return the settings that differ from their defaults, as plain data: a new one changes no fingerprint."""
    own = {each.name: (getattr(settings, each.name), each.default) for each in fields(settings)}
    return {name: _make_plain(value) for name, (value, usual) in own.items() if name not in _PLACES and value != usual}


def _make_plain(value: Any) -> Any:
    """Return a value as plain data: a function or class by its name, an object by the name of its class."""
    if value is None or isinstance(value, (str, int, float)):
        return value
    if isinstance(value, Mapping):
        return {str(key): _make_plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_make_plain(each) for each in value]
    if isinstance(value, (set, frozenset)):
        return sorted((_make_plain(each) for each in value), key=repr)
    if isinstance(value, partial):
        return {"is": "partial", **_make_plain({name: getattr(value, name) for name in ("func", "args", "keywords")})}
    if is_dataclass(value) and not isinstance(value, type) and not callable(value):
        own = {each.name: getattr(value, each.name) for each in fields(value) if _is_given(each, value)}
        return {"is": type(value).__qualname__, **_make_plain(own)}
    return getattr(value, "__qualname__", type(value).__qualname__)


def _is_given(each: Any, value: Any) -> bool:
    usual = each.default if each.default_factory is MISSING else each.default_factory()
    return bool(each.repr and getattr(value, each.name) != usual)


def _compare(kind: str, old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[str]:
    for name in sorted({*old, *new}):
        if name not in new:
            yield f"{kind}{name} is missing there"
        elif name not in old:
            yield f"{kind}{name} is only there"
        elif old[name] != new[name]:
            yield f"{kind}{name} differs"
