"""Requests from arguments: always to the same host, by the same method, with the same number of path segments.

The caller's keys are put where the document wants them; a model neither sees nor chooses them.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, unquote

from toolkit.errors import DefinitionError, InvalidArguments
from toolkit.sources.openapi.inputs import Inputs, Parameter
from toolkit.sources.openapi.schema import Place, Root, SecurityScheme, Source
from toolkit.sources.openapi.styles import HEADER_VALUE, percent_encode

# The name of a header, and of a scheme in `Authorization`: RFC 9110, section 5.6.2.
TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
TEMPLATE = re.compile(r"\{([^{}/]*)\}")
# A path outside of its templates: no query, no fragment, and nothing that could be read as a slash.
LITERAL = re.compile(r"/([^?#%{}\\\x00-\x1f\x7f]|%[0-9A-Fa-f]{2})*")
# Characters of it that are not encoded (RFC 3986, section 3.3), besides letters, digits and `-._~`.
SAFE = "/%!$&'()*+,;=:@"


@dataclass(frozen=True)
class RequestBuilder:
    """Builds the requests of one operation.

    Attributes:
        base: URL that the path follows.
        path: Path with a template for each of its parameters.
        keys: The caller's keys, by place and name.
        headers: The caller's headers, which override all others.
    """

    method: str
    base: str
    path: str
    inputs: Inputs
    keys: Mapping[str, Mapping[str, str]] = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)

    def __post_init__(self) -> None:
        names = {each.spec.name for each in self.inputs.parameters if each.place == "path"}
        missing = next((name for name in TEMPLATE.findall(self.path) if name not in names), None)
        if missing is not None:
            raise DefinitionError(f"the path has {{{missing}}}, and no parameter has that name. Declare it there.")
        if not LITERAL.fullmatch(TEMPLATE.sub("x", self.path)):
            raise DefinitionError(
                "the path is invalid: it begins with '/', and has neither '?' nor '#', nor '/' in braces."
            )
        for each in self.inputs.parameters:
            if each.place == "header":
                check_name(f"parameters: {each.spec.name!r}", each.spec.name)
        if self.keys["cookie"] and any(name.lower() == "cookie" for name in self.headers):
            raise DefinitionError("headers= has a Cookie, and auth= a key that goes there. Put that into headers= too.")

    def build(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments from which the HTTP client builds a request.

        Raises:
            InvalidArguments: An argument cannot be encoded.
        """
        query = "&".join(self._encode_parameters("query", arguments) + _join_pairs(self.keys["query"]))
        url = self.base.rstrip("/") + self._build_path(arguments) + (f"?{query}" if query else "")
        body = self.inputs.body.build(arguments) if self.inputs.body else {}
        headers = self._build_headers(arguments, body.get("headers", {}))
        return {**body, "method": self.method, "url": url, "headers": headers}

    def _build_path(self, arguments: Mapping[str, Any]) -> str:
        values = {
            each.spec.name: each.encode(arguments.get(each.argument))
            for each in self.inputs.parameters
            if each.place == "path"
        }
        parts = enumerate(TEMPLATE.split(self.path))  # every second one is a name
        path = "".join(values[part] if number % 2 else quote(part, safe=SAFE) for number, part in parts)
        for template, segment in zip(self.path.split("/"), path.split("/"), strict=True):
            if template != segment:
                _check_segment(template, segment)
        return path

    def _build_headers(self, arguments: Mapping[str, Any], defaults: Mapping[str, str]) -> dict[str, str]:
        """Return the headers by names in lower case."""
        headers = {"Accept": "application/json, */*;q=0.5", **defaults}
        headers |= {
            each.spec.name: each.encode(arguments[each.argument]) for each in self._list_given("header", arguments)
        }
        cookies = "; ".join(self._encode_parameters("cookie", arguments) + _join_pairs(self.keys["cookie"]))
        headers |= {"Cookie": cookies} if cookies else {}
        return {name.lower(): value for name, value in {**headers, **self.keys["header"], **self.headers}.items()}

    def _encode_parameters(self, place: Place, arguments: Mapping[str, Any]) -> list[str]:
        encoded = (each.encode(arguments[each.argument]) for each in self._list_given(place, arguments))
        return [text for text in encoded if text]

    def _list_given(self, place: Place, arguments: Mapping[str, Any]) -> list[Parameter]:
        given = (each for each in self.inputs.parameters if each.place == place)
        return [each for each in given if each.has_value(arguments.get(each.argument))]


def _check_segment(template: str, segment: str) -> None:
    """Check that a segment stays one segment, even for a server that decodes it too early.

    Raises:
        InvalidArguments: It is empty, or could be read as `.` or `..`.
    """
    steps = [step.partition(";")[0] for step in re.split(r"[/\\]", unquote(segment))]
    if segment == "" or not {".", ".."}.isdisjoint(steps):
        raise InvalidArguments(
            f"{template}: a part of a path must not be empty, '.' or '..', and have no such step in it."
        )


def _join_pairs(keys: Mapping[str, str]) -> list[str]:
    return [f"{percent_encode(name)}={value}" for name, value in keys.items()]


@dataclass(frozen=True)
class Security:
    """The document's security schemes, and the caller's keys to them.

    Attributes:
        schemes: The schemes that can be read.
        placements: Place, name and encoded value of each key.
        default: Alternatives of operations that have none of their own.
    """

    schemes: Mapping[str, SecurityScheme]
    placements: Mapping[str, tuple[str, str, str]] = field(repr=False)
    default: Sequence[Mapping[str, Any]]

    @property
    def reserved(self) -> set[tuple[str, str]]:
        """Places and names, in lower case, of all keys."""
        return {(each.place, each.name.casefold()) for each in self.schemes.values() if each.type == "apiKey"}

    def keys(self, alternatives: Sequence[Mapping[str, Any]] | None) -> dict[str, dict[str, str]]:
        """Return an operation's keys by place and name: those of its first alternative for which all keys are given.

        Args:
            alternatives: The operation's own alternatives; None for the document's.

        Raises:
            DefinitionError: Two keys go to the same place and name.
        """
        chosen = next(iter(self._list_satisfied(alternatives)), {})
        places: dict[str, dict[str, str]] = {"header": {}, "query": {}, "cookie": {}}
        for name in chosen:
            place, key, value = self.placements[name]
            if key in places[place]:
                raise DefinitionError(f"security: {[*chosen]} has two keys for the {place} {key!r}. Leave one out.")
            places[place][key] = value
        return places

    def check_used(self, operations: Iterable[Sequence[Mapping[str, Any]] | None]) -> None:
        """Check that every key is sent by some operation.

        Args:
            operations: The alternatives of each operation.

        Raises:
            DefinitionError: A key is never sent.
        """
        used = {name for alternatives in operations for names in self._list_satisfied(alternatives) for name in names}
        unused = [name for name in self.placements if name not in used]
        if unused:
            raise DefinitionError(
                f"auth: no operation asks for {unused}, or it asks for more besides. Add those keys, or send this one "
                f"by headers=."
            )

    def _list_satisfied(self, alternatives: Sequence[Mapping[str, Any]] | None) -> list[Mapping[str, Any]]:
        """List the alternatives for which all keys are given."""
        listed = self.default if alternatives is None else alternatives
        return [names for names in listed if names and names.keys() <= self.placements.keys()]


def load_security(source: Source, root: Root, auth: Mapping[str, str] | None) -> Security:
    """Parse the security schemes, and check the keys.

    Raises:
        DefinitionError: A key has no scheme, or cannot be sent.
    """
    parts = root.components.schemes
    if not isinstance(auth, (Mapping, type(None))):
        raise DefinitionError("auth= maps names of security schemes to keys. An auth of httpx2 goes into client=.")
    secrets = dict(auth or {})
    for name, secret in secrets.items():
        if name not in parts:
            known = ", ".join(parts) or "none"
            raise DefinitionError(f"auth: the document has no security scheme {name!r}. It has: {known}.")
        check_sendable(f"auth[{name!r}]", secret)
    parsed = {name: _parse_scheme(source, name, part, is_needed=name in secrets) for name, part in parts.items()}
    schemes = {name: scheme for name, scheme in parsed.items() if scheme is not None}
    placements = {name: _place_key(name, schemes[name], secret) for name, secret in secrets.items()}
    return Security(schemes, placements, root.security)


def _parse_scheme(source: Source, name: str, part: Any, *, is_needed: bool) -> SecurityScheme | None:
    """Parse a scheme; None if it is invalid and no key is for it."""
    try:
        return source.parse(SecurityScheme, part, f"securitySchemes.{name}")
    except DefinitionError:
        if is_needed:
            raise
        return None


def _place_key(name: str, scheme: SecurityScheme, secret: str) -> tuple[str, str, str]:
    if scheme.type == "apiKey":
        return _place_api_key(name, scheme, secret)
    if scheme.type in ("oauth2", "openIdConnect"):  # both give bearer tokens
        return "header", "Authorization", f"Bearer {secret}"
    if scheme.type != "http" or TOKEN.fullmatch(scheme.scheme) is None:
        raise DefinitionError(
            f"auth[{name!r}]: its scheme {scheme.scheme or scheme.type!r} takes no key. For a certificate pass client=."
        )
    if scheme.scheme.lower() == "basic":
        return "header", "Authorization", f"Basic {base64.b64encode(secret.encode()).decode()}"
    kind = "Bearer" if scheme.scheme.lower() == "bearer" else scheme.scheme
    return "header", "Authorization", f"{kind} {secret}"


def _place_api_key(name: str, scheme: SecurityScheme, secret: str) -> tuple[str, str, str]:
    if scheme.place not in ("header", "query", "cookie") or not scheme.name:
        raise DefinitionError(f"securitySchemes.{name}: an apiKey needs 'name', and 'in': header, query or cookie.")
    if scheme.place != "header":
        return scheme.place, scheme.name, percent_encode(secret)
    check_name(f"{scheme.name!r} of securitySchemes.{name}", scheme.name)
    return scheme.place, scheme.name, secret


def check_sendable(label: str, secret: Any) -> None:
    """Check that a value can be sent in a header; the message does not quote it.

    Raises:
        DefinitionError: It cannot be.
    """
    if not isinstance(secret, str) or HEADER_VALUE.fullmatch(secret) is None:
        raise DefinitionError(
            f"{label} is not text of visible ASCII characters. Where it was read from a file, use strip()."
        )


def check_name(label: str, name: Any) -> None:
    """Check that a name is one of a header.

    Raises:
        DefinitionError: It cannot be.
    """
    if not isinstance(name, str) or TOKEN.fullmatch(name) is None:
        raise DefinitionError(f"{label} is not a name of a header: letters, digits and '-', without ':' and blanks.")
