"""A fingerprint: digests of tools and settings, by which two processes see whether they have the same.

The definition of a tool is that of its lock, without the module of its function, since a file may be imported under
several names. Its settings join it: what asks for approval, what may be repeated, how long a call may take.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields, is_dataclass
from typing import Any

from toolkit._schema.error_messages import shorten
from toolkit._tools.lock import describe_tools, make_digest
from toolkit._tools.options import ToolSettings
from toolkit._tools.tool import Tool, find_module
from toolkit.errors import DefinitionError, FingerprintError

VERSION = 1
MAX_SHOWN = 1_000  # characters of the differences in an error
# Where a call runs is not what it does.
_PLACES = frozenset({"executor", "isolate"})


@dataclass(frozen=True)
class Fingerprint:
    """Digests of a toolbox or runner; `str` is the SHA-256 of all of them, the same in whatever order tools were added.

    Functions count by their names: two gates of one name are the same. No value of a setting can be read from it.

    Attributes:
        tools: Digest of each tool's definition and settings, by name.
        settings: Digest of each setting of the toolbox or runner, by name.
    """

    tools: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """The SHA-256 of all digests, such as `sha256:5c1f...`."""
        return make_digest(asdict(self))

    def __str__(self) -> str:
        return self.digest

    def find_differences(self, other: Fingerprint) -> list[str]:
        """Return what differs in another fingerprint, one line for each tool or setting; none where all is equal."""
        return [
            *_compare("tool ", self.tools, other.tools),
            *_compare("setting ", self.settings, other.settings),
        ]

    def check(self, other: Fingerprint) -> None:
        """Check that another fingerprint is equal.

        Raises:
            FingerprintError: It is not; the message names the tools and settings that differ.
        """
        if differences := self.find_differences(other):
            raise FingerprintError(
                f"The two sides have other tools or settings: {shorten('; '.join(differences), MAX_SHOWN)}. "
                "Give both the same version of the program."
            )

    def to_json(self) -> str:
        """Write the fingerprint as JSON text."""
        return json.dumps({"version": VERSION, **asdict(self)}, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Fingerprint:
        """Read the output of `to_json`.

        Raises:
            DefinitionError: The text is something else, or of another version.
        """
        try:
            data = json.loads(text)
            version, made = data.pop("version"), cls(**data)
            digests = [*made.tools.values(), *made.settings.values()]
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise DefinitionError(f"This is not a fingerprint: {error!r}") from None
        if version != VERSION or not all(isinstance(digest, str) for digest in digests):
            raise DefinitionError("This is a fingerprint of another version: give both sides the same library.")
        return made


def make_fingerprint(tools: Iterable[Tool[..., Any]], settings: Mapping[str, Any]) -> Fingerprint:
    """Make the fingerprint of tools and settings; a setting that is None counts as one that is not there."""
    given = {name: value for name, value in settings.items() if value is not None}
    return Fingerprint(
        {made.name: _digest_tool(made) for made in tools},
        {name: make_digest({name: _make_plain(value)}) for name, value in sorted(given.items())},
    )


def _digest_tool(made: Tool[..., Any]) -> str:
    definition = describe_tools([made])["tools"][made.name]
    source = made.origin.removeprefix(f"{find_module(made)}.")
    return make_digest({**definition, "digest": "", "source": source, "settings": _list_changed(made.settings)})


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
