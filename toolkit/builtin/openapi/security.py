"""Who calls: the caller's keys, put where the document wants them. A model neither sees nor chooses them."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import httpx2

from toolkit.builtin.openapi.objects import Root, SecurityScheme, Source
from toolkit.builtin.openapi.styles import HEADER, encoded
from toolkit.errors import DefinitionError

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
