"""What an operation needs: one flat object for the model, and where each part of it goes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from toolkit._schema.validation.references import hoisted
from toolkit._tools.tool import legal_name
from toolkit.builtin.openapi.bodies import Body, body_of
from toolkit.builtin.openapi.objects import ParameterObject, Place, RequestBody, Source
from toolkit.builtin.openapi.operations import Operation
from toolkit.builtin.openapi.styles import Encode, defined, encoded, header, is_undefined, keys_of, plain, styled
from toolkit.builtin.openapi.translation import translated
from toolkit.errors import InvalidArguments

# Headers that HTTP itself needs, or that say who calls, or how: by these a model would speak to another server, as
# somebody else, or by another method than its tool's.
# Accept, Content-Type and Authorization are no parameters by the specification (3.1.1, section Parameter Object).
FORBIDDEN = frozenset(
    [
        "accept",
        "accept-encoding",
        "authorization",
        "connection",
        "content-encoding",
        "content-length",
        "content-type",
        "cookie",
        "expect",
        "forwarded",
        "host",
        "http2-settings",
        "keep-alive",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "via",
        "x-forwarded-for",
        "x-forwarded-host",
        "x-forwarded-port",
        "x-forwarded-proto",
        "x-http-method",
        "x-http-method-override",
        "x-method-override",
        "x-original-url",
        "x-rewrite-url",
    ]
)
# The style of each place, where the document says none.
USUAL: Mapping[Place, str] = MappingProxyType({"path": "simple", "query": "form", "header": "simple", "cookie": "form"})


@dataclass(frozen=True)
class Parameter:
    """A parameter, and how it is written.

    Attributes:
        argument: What the model calls it.
        told: What the document says of it.
        others: Names that stand beside it: keys of an object must not be read as one of them.
    """

    argument: str
    told: ParameterObject
    others: frozenset[str]

    @property
    def place(self) -> Place:
        """Where it goes."""
        return self.told.place

    def written(self, value: Any) -> str:
        """Write a value for its place; empty where there is nothing to be written.

        Raises:
            InvalidArguments: It cannot be written there.
        """
        if not self.is_written(value):
            return ""
        return self._styled(plain(value, next(iter(self.told.content))) if self.told.content else defined(value))

    def is_written(self, value: Any) -> bool:
        """Whether there is anything to be written of a value."""
        return value is not None if self.told.content else not is_undefined(defined(value))

    def _styled(self, value: Any) -> str:
        style = self.told.style or USUAL[self.place]
        explode = style in ("form", "deepObject") if self.told.explode is None else self.told.explode
        self._refuse_others(keys_of(self.told.name, value, style, explode=explode))
        return styled(
            self.told.name, value, "cookie" if self.place == "cookie" else style, explode=explode, encode=self._encode
        )

    @property
    def _encode(self) -> Encode:
        if self.place == "header":
            return header
        reserved = self.told.allow_reserved and self.place == "query"
        return lambda text: encoded(text, reserved=reserved)

    def _refuse_others(self, keys: list[str]) -> None:
        bad = next((key for key in keys if key.casefold() in self.others), None)
        if bad is not None:
            raise InvalidArguments(f"{self.argument}: the key {bad!r} is the name of another parameter.")


@dataclass(frozen=True)
class Inputs:
    """What an operation needs.

    Attributes:
        schema: JSON Schema of the arguments, of type object.
        parameters: Those that the model fills in.
        body: What is sent besides; None where nothing is.
    """

    schema: dict[str, Any]
    parameters: tuple[Parameter, ...]
    body: Body | None


def inputs_of(source: Source, operation: Operation, kept: Collection[tuple[str, str]]) -> Inputs:
    """Find what an operation needs of a model.

    Args:
        source: The document.
        operation: One of its operations.
        kept: Places and names, in small letters, of what is the caller's to send.

    Raises:
        DefinitionError: The document does not hold together there.
    """
    names = _Names()
    told = [each for each in _parameters(source, operation) if _is_shown(each, operation.path, kept)]
    parameters = [Parameter(names.free(each.name, each.place), each, _others(each, told, kept)) for each in told]
    body = None
    if operation.told.body is not None:
        request = source.read(RequestBody, operation.told.body, "requestBody")
        body = body_of(source, request, names.free)
    return Inputs(_schema(source, parameters, body), tuple(parameters), body)


def _parameters(source: Source, operation: Operation) -> list[ParameterObject]:
    """List the parameters of a path and its operation, of which the operation's count more."""
    listed = [*operation.item.parameters, *operation.told.parameters]
    read = [source.read(ParameterObject, part, "parameters") for part in listed]
    return list({(each.place, each.name): each for each in read}.values())


def _is_shown(told: ParameterObject, path: str, kept: Collection[tuple[str, str]]) -> bool:
    name = told.name.casefold()
    if told.place == "path":
        return f"{{{told.name}}}" in path
    return (told.place, name) not in kept and not (told.place == "header" and name in FORBIDDEN)


def _others(told: ParameterObject, listed: list[ParameterObject], kept: Collection[tuple[str, str]]) -> frozenset[str]:
    beside = {each.name.casefold() for each in listed if each.place == told.place and each is not told}
    return frozenset(beside | {name for place, name in kept if place == told.place})


class _Names:
    """The names of arguments: no two are the same, and all of them may be sent to a provider."""

    def __init__(self) -> None:
        self._taken = set[str]()

    def free(self, name: str, place: str) -> str:
        """Name the argument of what goes by a name somewhere."""
        plain_name = legal_name(name).strip("_") or place
        choices = [plain_name, legal_name(f"{place}_{plain_name}")]
        choices += [legal_name(f"{place}_{plain_name}_{number}") for number in range(2, len(self._taken) + 3)]
        chosen = next(choice for choice in choices if choice not in self._taken)
        self._taken.add(chosen)
        return chosen


def _schema(source: Source, parameters: list[Parameter], body: Body | None) -> dict[str, Any]:
    properties = {each.argument: _shown(each.told) for each in parameters}
    required = [each.argument for each in parameters if each.told.required or each.place == "path"]
    if body is not None:
        properties |= body.properties
        required += body.asked
    whole = {"type": "object", "properties": properties, "required": required}
    alone: dict[str, Any] = translated(hoisted(source.document, part=whole))
    return {**alone, "required": [name for name in alone["required"] if name in alone["properties"]]}


def _shown(told: ParameterObject) -> dict[str, Any]:
    media = next(iter(told.content.values()), None)
    shape = told.shape if media is None else media.shape
    shown = dict(shape) if isinstance(shape, Mapping) else {}
    said = {"description": told.description} if told.description else {}
    return {**shown, **said, **({"deprecated": True} if told.deprecated else {})}
