"""What an operation needs: one flat object for the model, and where each part of it goes.

What an operation is sent besides its parameters: which of its forms, what the model fills in, and how it is written.

    form                                 what the model fills in
    application/json, ...+json           the members of the object, or `body`
    application/x-www-form-urlencoded    the same
    multipart/form-data                  the same; a file is its text
    any other                            `body`, a text that is sent as it is

There is no way to send a file of this machine: a model would choose it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from toolkit._schema.validation.references import bundle
from toolkit._tools.tool import safe_name
from toolkit.errors import DefinitionError, InvalidArguments
from toolkit.sources.openapi.document import Operation
from toolkit.sources.openapi.schema import (
    Encoding,
    ParameterObject,
    Place,
    RequestBody,
    Source,
    parts_of,
    properties_of,
    translated,
)
from toolkit.sources.openapi.styles import (
    HEADER,
    Encode,
    defined,
    encoded,
    header,
    is_json,
    is_undefined,
    keys_of,
    plain,
    styled,
)

FORM, MULTIPART = "application/x-www-form-urlencoded", "multipart/form-data"
JSON, PATCH = "application/json", "application/json-patch+json"
# What is sent where the document allows a range of media types.
RANGES: Mapping[str, str] = MappingProxyType(
    {"*/*": JSON, "application/*": JSON, "application/*+json": JSON, "text/*": "text/plain"}
)
# What an object may say besides its members, for these to stand among the parameters.
_FLAT = frozenset(
    [
        "type",
        "properties",
        "required",
        "title",
        "description",
        "additionalProperties",
        "example",
        "examples",
        "deprecated",
        "externalDocs",
        "xml",
        "$schema",
        "$comment",
        "default",
    ]
)

# Gives a free name for what goes by a name in some place.
Free = Callable[[str, str], str]
# A part of a multipart form, as the HTTP client takes it: its name, and file name, content and media type.
Part = tuple[str, tuple[str | None, bytes, str]]


@dataclass(frozen=True)
class Body:
    """What is sent besides the parameters.

    Attributes:
        media_type: Its form.
        members: Names of the object's members, by what the model calls them; None where `whole` is all of it.
        whole: What the model calls the body.
        properties: Schemas by what the model calls them.
        asked: What the model must not leave out.
        encoding: How members are written, by name.
        declared: Names of all members that the document tells, of answers too.
        files: Those that are files.
        is_required: Whether there always is one.
    """

    media_type: str
    members: Mapping[str, str] | None
    whole: str
    properties: Mapping[str, Any]
    asked: tuple[str, ...]
    encoding: Mapping[str, Encoding] = field(default_factory=dict)
    declared: frozenset[str] = frozenset()
    files: frozenset[str] = frozenset()
    is_required: bool = False

    def content(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Write what the HTTP client is to send: nothing, where the model said nothing.

        Raises:
            InvalidArguments: It cannot be written in this form.
        """
        value = self._value(arguments)
        if value is _NOTHING:
            return {}
        if self.media_type == MULTIPART:
            return {"files": self._parts(_object(value))}
        return {"content": self._written(value), "headers": {"Content-Type": self.media_type}}

    def _value(self, arguments: Mapping[str, Any]) -> Any:
        if self.members is None:
            return arguments.get(self.whole, _NOTHING)
        value = {name: arguments[argument] for argument, name in self.members.items() if argument in arguments}
        return value if value or self.is_required else _NOTHING

    def _written(self, value: Any) -> bytes:
        if self.media_type == FORM:
            return self._form(_object(value)).encode()
        return plain(value, self.media_type).encode()

    def _form(self, value: Mapping[str, Any]) -> str:
        given = {name: defined(each) for name, each in value.items()}
        known = {name: each for name, each in given.items() if not is_undefined(each)}
        names = self.declared | known.keys()
        return "&".join(filter(None, (self._field(name, each, names) for name, each in known.items())))

    def _field(self, name: str, value: Any, others: Collection[str]) -> str:
        told = self.encoding.get(name, _USUAL)
        if not told.is_styled:
            items = value if isinstance(value, list) and not is_json(told.content_type) else [value]
            return "&".join(f"{encoded(name)}={encoded(plain(item, told.content_type))}" for item in items)
        style = told.style or "form"
        explode = style in ("form", "deepObject") if told.explode is None else told.explode
        if not set(others).isdisjoint(keys_of(name, value, style, explode=explode)):
            raise InvalidArguments(f"{name}: a key in it is the name of another field.")
        return styled(name, value, style, explode=explode, encode=_encoder(told))

    def _parts(self, value: Mapping[str, Any]) -> list[Part]:
        items = [
            (name, item)
            for name, each in value.items()
            for item in (each if isinstance(each, list) else [each])
            if item is not None
        ]
        return [(name, self._part(name, item)) for name, item in items]

    def _part(self, name: str, item: Any) -> tuple[str | None, bytes, str]:
        is_file = name in self.files
        usual = "application/octet-stream" if is_file else "text/plain; charset=utf-8"
        told = self.encoding.get(name, _USUAL).content_type.partition(",")[0].strip()
        usual = JSON if isinstance(item, (dict, list)) else usual
        return (name if is_file else None, plain(item, told).encode(), told if told and "*" not in told else usual)


_NOTHING = object()
_USUAL = Encoding.model_validate({})


def body_of(source: Source, request: RequestBody, free: Free) -> Body:
    """Choose the form of a body, and name what the model fills in.

    Raises:
        DefinitionError: The document does not say what a form has.
    """
    if not request.content:
        raise DefinitionError("requestBody has no content: say which media type it has.")
    contents = [(_media_type(name), told) for name, told in request.content.items()]
    media_type, told = min(contents, key=lambda each: _rank(each[0]))
    _check_types([media_type, *(each.content_type for each in told.encoding.values())])
    shape = source.resolved(told.shape, f"requestBody: {media_type}")
    shape = shape if isinstance(shape, Mapping) else {}
    is_structured = is_json(media_type) or media_type in (FORM, MULTIPART)
    if not is_structured:
        return _whole(media_type, request, _text(media_type), free)
    if _is_flat(shape, is_required=request.required):
        body = _flat(media_type, request, shape, free)
    else:
        body = _whole(media_type, request, told.shape if isinstance(told.shape, Mapping) else {}, free)
    if is_json(media_type):
        return body
    members = _members(source, shape)
    files = frozenset(name for name, part in members.items() if _is_file(source, part))
    return replace(body, encoding=told.encoding, declared=frozenset(members), files=files)


def _check_types(media_types: list[str]) -> None:
    bad = next((each for each in media_types if HEADER.fullmatch(each) is None), None)
    if bad is not None:
        raise DefinitionError(f"requestBody: {bad!r} is no media type. Mend the document there.")


def _media_type(name: str) -> str:
    """Name the form that a content is sent in: of ranges the usual one, of forms without their parameters."""
    essence = name.partition(";")[0].strip().lower()
    return RANGES.get(essence, essence if essence in (FORM, MULTIPART) else name.strip())


def _rank(media_type: str) -> int:
    essence = media_type.partition(";")[0].strip().lower()
    if is_json(essence):
        return {JSON: 0, PATCH: 2}.get(essence, 1)
    return {FORM: 3, MULTIPART: 4}.get(essence, 5 if essence[:5] == "text/" else 6)


def _is_flat(shape: Mapping[str, Any], *, is_required: bool) -> bool:
    """Whether an object's members can stand for it: it is there whenever one of them is, and has no others."""
    words = {keyword for keyword in shape if keyword[:2] != "x-"}
    known = isinstance(shape.get("properties"), Mapping) and shape["properties"]
    is_closed = shape.get("additionalProperties", False) is False
    return bool(known) and words <= _FLAT and is_closed and (is_required or not shape.get("required"))


def _whole(media_type: str, request: RequestBody, shape: Mapping[str, Any], free: Free) -> Body:
    argument = free("body", "request")
    shown = {**({"description": request.description} if request.description else {}), **shape}
    asked = (argument,) if request.required else ()
    return Body(media_type, None, argument, {argument: shown}, asked)


def _flat(media_type: str, request: RequestBody, shape: Mapping[str, Any], free: Free) -> Body:
    members = {free(name, "body"): name for name in shape["properties"]}
    required = shape.get("required") or ()
    return Body(
        media_type,
        members,
        "",
        {argument: shape["properties"][name] for argument, name in members.items()},
        tuple(argument for argument, name in members.items() if name in required),
        is_required=request.required,
    )


def _members(source: Source, shape: Mapping[str, Any]) -> dict[str, Any]:
    """List the members that an object may have, by whatever part of its schema."""
    members: dict[str, Any] = {}
    waiting: list[Any] = [shape]
    seen = set[int]()
    while waiting:
        part = source.resolved(waiting.pop(), "requestBody")
        if isinstance(part, Mapping) and id(part) not in seen:
            seen.add(id(part))
            members |= properties_of(part)
            waiting += parts_of(part)
    return members


def _is_file(source: Source, part: Any) -> bool:
    """Whether a member, or each item of it, is a file: 3.0 says so by its format, 3.1 by its media type, or nothing."""
    shape = source.resolved(part, "requestBody")
    if isinstance(shape, Mapping) and shape.get("type") == "array":
        shape = source.resolved(shape.get("items", {}), "requestBody")
    if not isinstance(shape, Mapping):
        return True
    return shape.get("format") == "binary" or "contentMediaType" in shape or not shape


def _text(media_type: str) -> dict[str, Any]:
    return {"type": "string", "description": f"The request body, as {media_type}."}


def _object(value: Any) -> Mapping[str, Any]:
    if isinstance(value, dict):
        return value
    raise InvalidArguments(f"body: a form is an object of its fields, and not {plain(value)[:50]}.")


def _encoder(told: Encoding) -> Callable[[str], str]:
    return lambda text: encoded(text, reserved=told.allow_reserved is True)


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
        plain_name = safe_name(name).strip("_") or place
        choices = [plain_name, safe_name(f"{place}_{plain_name}")]
        choices += [safe_name(f"{place}_{plain_name}_{number}") for number in range(2, len(self._taken) + 3)]
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
    alone: dict[str, Any] = translated(bundle(source.document, part=whole))
    return {**alone, "required": [name for name in alone["required"] if name in alone["properties"]]}


def _shown(told: ParameterObject) -> dict[str, Any]:
    media = next(iter(told.content.values()), None)
    shape = told.shape if media is None else media.shape
    shown = dict(shape) if isinstance(shape, Mapping) else {}
    said = {"description": told.description} if told.description else {}
    return {**shown, **said, **({"deprecated": True} if told.deprecated else {})}
