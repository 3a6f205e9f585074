"""What an operation is sent besides its parameters: which of its forms, what the model fills in, and how it is written.

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

from toolkit.builtin.openapi.objects import Encoding, RequestBody, Source
from toolkit.builtin.openapi.styles import HEADER, defined, encoded, is_json, is_undefined, keys_of, plain, styled
from toolkit.builtin.openapi.translation import parts_of, properties_of
from toolkit.errors import DefinitionError, InvalidArguments

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
