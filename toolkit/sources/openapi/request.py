"""Arguments -> a request: whatever they are, it goes to the same host, by the same method, to as many segments.

Who calls: the caller's keys, put where the document wants them. A model neither sees nor chooses them.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from urllib.parse import quote, unquote

import httpx2

from toolkit.errors import DefinitionError, InvalidArguments
from toolkit.sources.openapi.document import join
from toolkit.sources.openapi.inputs import Inputs, Parameter
from toolkit.sources.openapi.schema import Place, Root, SecurityScheme, Source
from toolkit.sources.openapi.styles import HEADER, encoded

# A name of a header, and of a scheme in `Authorization`: RFC 9110, section 5.6.2.
TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
# Keys by the names of the document's security schemes; or what the HTTP client takes, for all requests.
Auth: TypeAlias = Mapping[str, str] | httpx2.Auth | tuple[str, str]


@dataclass(frozen=True)
class Keys:
    """What lets one operation's requests in, by where it goes: names and values."""

    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    query: Mapping[str, str] = field(default_factory=dict, repr=False)
    cookies: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Security:
    """The document's security schemes, and the caller's keys to them.

    Attributes:
        schemes: Those that can be read.
        placed: Where each key goes, under which name, and how it is written.
        usual: Alternatives of operations that have none of their own.
    """

    schemes: Mapping[str, SecurityScheme]
    placed: Mapping[str, tuple[str, str, str]] = field(repr=False)
    usual: Sequence[Mapping[str, Any]]

    @property
    def kept(self) -> set[tuple[str, str]]:
        """Places and names, in small letters, that keys go to."""
        return {(each.place, each.name.casefold()) for each in self.schemes.values() if each.type == "apiKey"}

    def keys(self, asked: Sequence[Mapping[str, Any]] | None) -> Keys:
        """Make what an operation asks for: the first of its alternatives for which there are all keys.

        Args:
            asked: The operation's own alternatives; None where the document's hold.

        Raises:
            DefinitionError: It wants two keys in one place.
        """
        chosen = next(iter(self._complete(asked)), {})
        places: dict[str, dict[str, str]] = {"header": {}, "query": {}, "cookie": {}}
        for name in chosen:
            place, key, value = self.placed[name]
            if key in places[place]:
                raise DefinitionError(f"security: {[*chosen]} has two keys for the {place} {key!r}. Leave one out.")
            places[place][key] = value
        return Keys(places["header"], places["query"], places["cookie"])

    def check_used(self, alternatives: Iterable[Sequence[Mapping[str, Any]] | None]) -> None:
        """Check that each key lets in somewhere.

        Args:
            alternatives: Of each operation.

        Raises:
            DefinitionError: Some key is never sent.
        """
        used = {name for asked in alternatives for names in self._complete(asked) for name in names}
        unused = [name for name in self.placed if name not in used]
        if unused:
            raise DefinitionError(
                f"auth: no operation asks for {unused}, or it asks for more besides. Add those keys, or send this one "
                f"by headers=."
            )

    def _complete(self, asked: Sequence[Mapping[str, Any]] | None) -> list[Mapping[str, Any]]:
        """List the alternatives for which there are all keys."""
        alternatives = self.usual if asked is None else asked
        return [names for names in alternatives if names and names.keys() <= self.placed.keys()]


def security_of(source: Source, root: Root, auth: Auth | None) -> Security:
    """Read the security schemes, and check the keys.

    Raises:
        DefinitionError: A key is of no scheme, or cannot be sent.
    """
    told = root.components.schemes
    secrets = dict(auth) if isinstance(auth, Mapping) else {}
    for name, secret in secrets.items():
        if name not in told:
            known = ", ".join(told) or "none"
            raise DefinitionError(f"auth: the document has no security scheme {name!r}. It has: {known}.")
        check_sendable(f"auth[{name!r}]", secret)
    read = {name: _scheme(source, name, part, is_needed=name in secrets) for name, part in told.items()}
    schemes = {name: scheme for name, scheme in read.items() if scheme is not None}
    placed = {name: _placed(name, schemes[name], secret) for name, secret in secrets.items()}
    return Security(schemes, placed, root.security)


def _scheme(source: Source, name: str, part: Any, *, is_needed: bool) -> SecurityScheme | None:
    """Read a scheme; one that no key is for may be anything."""
    try:
        return source.read(SecurityScheme, part, f"securitySchemes.{name}")
    except DefinitionError:
        if is_needed:
            raise
        return None


def check_sendable(what: str, secret: Any) -> None:
    """Check that a value can be sent in a header, without telling it.

    Raises:
        DefinitionError: It cannot.
    """
    if not isinstance(secret, str) or HEADER.fullmatch(secret) is None:
        raise DefinitionError(
            f"{what} is no text of visible ASCII characters. Where it was read from a file, use strip()."
        )


def check_name(what: str, name: Any) -> None:
    """Check that a name can be a header's.

    Raises:
        DefinitionError: It cannot.
    """
    if not isinstance(name, str) or TOKEN.fullmatch(name) is None:
        raise DefinitionError(f"{what} is no name of a header: letters, digits and '-', without ':' and blanks.")


def _placed(name: str, scheme: SecurityScheme, secret: str) -> tuple[str, str, str]:
    if scheme.type == "apiKey":
        return _placed_by_name(name, scheme, secret)
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


def _placed_by_name(name: str, scheme: SecurityScheme, secret: str) -> tuple[str, str, str]:
    if scheme.place not in ("header", "query", "cookie") or not scheme.name:
        raise DefinitionError(f"securitySchemes.{name}: an apiKey needs 'name', and 'in': header, query or cookie.")
    if scheme.place != "header":
        return scheme.place, scheme.name, encoded(secret)
    check_name(f"{scheme.name!r} of securitySchemes.{name}", scheme.name)
    return scheme.place, scheme.name, secret


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
