"""Arguments -> a request: whatever they are, it goes to the same host, by the same method, to as many segments."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, unquote

from toolkit.builtin.openapi.inputs import Inputs, Parameter
from toolkit.builtin.openapi.objects import Place
from toolkit.builtin.openapi.security import Keys, check_name
from toolkit.builtin.openapi.servers import join
from toolkit.builtin.openapi.styles import encoded
from toolkit.errors import DefinitionError, InvalidArguments

TEMPLATE = re.compile(r"\{([^{}/]*)\}")
# A path outside of its templates: neither query nor fragment, and nothing that is read as a slash.
LITERAL = re.compile(r"/([^?#%{}\\\x00-\x1f\x7f]|%[0-9A-Fa-f]{2})*")
# What stays of it as it is (RFC 3986, section 3.3), besides letters, digits and `-._~`.
SAFE = "/%!$&'()*+,;=:@"


@dataclass(frozen=True)
class Requests:
    """Makes the requests of one operation.

    Attributes:
        base: Address that the path follows.
        path: With a template for each parameter of the path.
        headers: The caller's; they count most.
    """

    method: str
    base: str
    path: str
    inputs: Inputs
    keys: Keys
    headers: Mapping[str, str] = field(repr=False)

    def __post_init__(self) -> None:
        names = {each.told.name for each in self.inputs.parameters if each.place == "path"}
        missing = next((name for name in TEMPLATE.findall(self.path) if name not in names), None)
        if missing is not None:
            raise DefinitionError(f"the path has {{{missing}}}, and no parameter is called so. Declare it there.")
        if not LITERAL.fullmatch(TEMPLATE.sub("x", self.path)):
            raise DefinitionError(
                "the path is none: it begins with '/', and has neither '?' nor '#', nor '/' in braces."
            )
        for each in self.inputs.parameters:
            if each.place == "header":
                check_name(f"parameters: {each.told.name!r}", each.told.name)
        if self.keys.cookies and any(name.lower() == "cookie" for name in self.headers):
            raise DefinitionError("headers= has a Cookie, and auth= a key that goes there. Put that into headers= too.")

    def request(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Write what the HTTP client builds a request of.

        Raises:
            InvalidArguments: An argument cannot be written.
        """
        query = "&".join(self._written("query", arguments) + _pairs(self.keys.query))
        url = join(self.base, self._path(arguments)) + (f"?{query}" if query else "")
        body = self.inputs.body.content(arguments) if self.inputs.body else {}
        headers = self._headers(arguments, body.get("headers", {}))
        if "files" in body:  # the client says what is between the parts
            headers.pop("content-type", None)
        return {**body, "method": self.method, "url": url, "headers": headers}

    def _path(self, arguments: Mapping[str, Any]) -> str:
        values = {
            each.told.name: each.written(arguments.get(each.argument))
            for each in self.inputs.parameters
            if each.place == "path"
        }
        parts = enumerate(TEMPLATE.split(self.path))  # each second is a name
        path = "".join(values[part] if number % 2 else quote(part, safe=SAFE) for number, part in parts)
        for told, segment in zip(self.path.split("/"), path.split("/"), strict=True):
            if told != segment:
                _check_segment(told, segment)
        return path

    def _headers(self, arguments: Mapping[str, Any], usual: Mapping[str, str]) -> dict[str, str]:
        """Gather the headers, by names in small letters."""
        headers = {"Accept": "application/json, */*;q=0.5", **usual}
        headers |= {each.told.name: each.written(arguments[each.argument]) for each in self._given("header", arguments)}
        cookies = "; ".join(self._written("cookie", arguments) + _pairs(self.keys.cookies))
        headers |= {"Cookie": cookies} if cookies else {}
        return {name.lower(): value for name, value in {**headers, **self.keys.headers, **self.headers}.items()}

    def _written(self, place: Place, arguments: Mapping[str, Any]) -> list[str]:
        written = (each.written(arguments[each.argument]) for each in self._given(place, arguments))
        return [text for text in written if text]

    def _given(self, place: Place, arguments: Mapping[str, Any]) -> list[Parameter]:
        given = (each for each in self.inputs.parameters if each.place == place)
        return [each for each in given if each.is_written(arguments.get(each.argument))]


def _check_segment(told: str, segment: str) -> None:
    """Check that a segment is one, for a server that unpacks it too early as well.

    Raises:
        InvalidArguments: It would be read as a step up, as none, or as nothing.
    """
    steps = [step.partition(";")[0] for step in re.split(r"[/\\]", unquote(segment))]
    if segment == "" or not {".", ".."}.isdisjoint(steps):
        raise InvalidArguments(f"{told}: a part of a path must not be empty, '.' or '..', and have no such step in it.")


def _pairs(keys: Mapping[str, str]) -> list[str]:
    return [f"{encoded(name)}={value}" for name, value in keys.items()]
