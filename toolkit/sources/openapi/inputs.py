"""The arguments of an operation: one flat object for the model, and the place and encoding of each of its members.

A body is sent in one of the media types that the document offers:

    media type                           the model's arguments
    application/json, ...+json           the members of the object, or `body`
    application/x-www-form-urlencoded    the same
    any other                            `body`, a text that is sent as it is

Multipart forms are refused: they send files, and a model must not choose which files of this machine are sent.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from toolkit._schema.json_schema import as_mapping, without_null
from toolkit._schema.validation.pointers import bundle
from toolkit._tools.tool import safe_name
from toolkit.errors import DefinitionError, InvalidArguments
from toolkit.sources.openapi.document import Operation, choose_name
from toolkit.sources.openapi.schema import (
    Encoding,
    ParameterObject,
    Place,
    RequestBody,
    Source,
    get_properties,
    translate,
)
from toolkit.sources.openapi.styles import (
    apply_style,
    check_header_value,
    drop_nulls,
    is_json,
    is_undefined,
    list_nested_keys,
    percent_encode,
    to_text,
)

FORM = "application/x-www-form-urlencoded"
MULTIPART = "multipart/"
JSON = "application/json"
PATCH = "application/json-patch+json"
# Media types that are sent if the document has a range of them.
RANGES: Mapping[str, str] = {"*/*": JSON, "application/*": JSON, "application/*+json": JSON, "text/*": "text/plain"}
# Keywords that the schema of an object may have, for its members to be arguments of their own.
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
# Headers that HTTP itself needs, or that name the caller or the method: with these a model could reach another server,
# pose as another caller, or use another method than its tool's. Accept, Content-Type and Authorization are not
# parameters, by the specification (3.1.1, section Parameter Object). Cookies name the caller, too.
_FORBIDDEN_HEADERS = re.compile(
    "accept|accept-encoding|authorization|connection|content-(encoding|length|type)|cookie|expect|forwarded|host|http2-settings|keep-alive|"
    "proxy-.*|te|trailer|transfer-encoding|upgrade|via|x-forwarded-.*|x-http-method.*|x-method-override|"
    "x-original-url|x-rewrite-url"
)
# The style of each place, unless the document has one.
DEFAULT_STYLES: Mapping[Place, str] = {"path": "simple", "query": "form", "header": "simple"}


def make_inputs(
    source: Source, operation: Operation, reserved: Collection[tuple[str, str]]
) -> tuple[dict[str, Any], tuple[Parameter, ...], Body | None]:
    """Make the JSON Schema of the arguments of an operation, its parameters that a model fills in, and its body.

    Args:
        source: The document.
        operation: One of its operations.
        reserved: Places and names, in lower case, that the caller sends.

    Raises:
        DefinitionError: A parameter or the body is invalid.
    """
    taken = set[str]()
    specs = [each for each in _list_parameters(source, operation) if _is_argument(each, operation.path, reserved)]
    used = {*reserved, *((each.place, each.name.casefold()) for each in specs)}
    parameters = tuple(Parameter(_name_argument(each.name, each.place, taken), each, used) for each in specs)
    body = None
    if operation.spec.body is not None:
        body = make_body(source, source.parse(RequestBody, operation.spec.body, "requestBody"), taken)
    return _make_schema(source, parameters, body), parameters, body


def _list_parameters(source: Source, operation: Operation) -> list[ParameterObject]:
    """List the parameters of a path and its operation. Those of the operation replace others of the same name."""
    listed = [*operation.path_item.parameters, *operation.spec.parameters]
    parsed = [source.parse(ParameterObject, part, "parameters") for part in listed]
    return list({(each.place, each.name): each for each in parsed}.values())


def _is_argument(spec: ParameterObject, path: str, reserved: Collection[tuple[str, str]]) -> bool:
    name = spec.name.casefold()
    if spec.place == "path":
        return f"{{{spec.name}}}" in path
    is_forbidden = spec.place == "cookie" or (spec.place == "header" and _FORBIDDEN_HEADERS.fullmatch(name))
    return not is_forbidden and (spec.place, name) not in reserved


def _name_argument(name: str, place: str, taken: set[str]) -> str:
    """Choose a free name that is valid for every provider."""
    plain = safe_name(name).strip("_") or place
    return choose_name([plain, safe_name(f"{place}_{plain}")], f"{place} {name}", taken)


def _make_schema(source: Source, parameters: Sequence[Parameter], body: Body | None) -> dict[str, Any]:
    properties = {each.argument: _describe_parameter(each.spec) for each in parameters}
    required = [each.argument for each in parameters if each.spec.required or each.spec.place == "path"]
    if body is not None:
        properties |= body.properties
        required += body.required
    whole = {"type": "object", "properties": properties, "required": required}
    return translate(bundle(source.document, part=whole))


def _describe_parameter(spec: ParameterObject) -> dict[str, Any]:
    media = next(iter(spec.content.values()), None)
    shape = _drop_null(as_mapping(spec.shape)) if media is None else media.shape
    schema = dict(shape) if isinstance(shape, Mapping) else {}
    description = {"description": spec.description} if spec.description else {}
    written = {"readOnly": False}  # a schema may be shared with a response, where it is
    return {**schema, **written, **description, **({"deprecated": True} if spec.deprecated else {})}


def _drop_null(shape: Mapping[str, Any]) -> Mapping[str, Any]:
    """Drop null from the values of a parameter, which is not sent then: to leave it out is enough."""
    rest = {keyword: value for keyword, value in shape.items() if keyword != "nullable"}
    return without_null(rest) or rest


@dataclass(frozen=True)
class Parameter:
    """A parameter and its encoding.

    Attributes:
        argument: The model's name for it.
        spec: The parameter object.
        used: Places and names, in lower case, of all parameters and of the caller's headers: no key of an object may be
            sent under the name of another one.
    """

    argument: str
    spec: ParameterObject
    used: Collection[tuple[str, str]]

    def encode(self, value: Any) -> str:
        """Encode a value for its place. Return "" if it is undefined.

        Raises:
            InvalidArguments: The value cannot be encoded there.
        """
        if not self.has_value(value):
            return ""
        return self._apply_style(
            to_text(value, next(iter(self.spec.content))) if self.spec.content else drop_nulls(value)
        )

    def has_value(self, value: Any) -> bool:
        """Return whether a value is sent."""
        return value is not None if self.spec.content else not is_undefined(drop_nulls(value))

    def _apply_style(self, value: Any) -> str:
        style = self.spec.style or DEFAULT_STYLES[self.spec.place]
        explode = style in ("form", "deepObject") if self.spec.explode is None else self.spec.explode
        for key in list_nested_keys(self.spec.name, value, style, explode=explode):
            if key.casefold() != self.spec.name.casefold() and (self.spec.place, key.casefold()) in self.used:
                raise InvalidArguments(f"{self.argument}: the key {key!r} is the name of another parameter.")
        encode = check_header_value if self.spec.place == "header" else percent_encode
        return apply_style(self.spec.name, value, style, explode=explode, encode=encode)


@dataclass(frozen=True)
class Body:
    """The body of a request.

    Attributes:
        media_type: Its media type.
        members: Names of the object's members, by argument; None if the argument `whole` is all of the body.
        whole: The argument that is the body.
        properties: Schemas by argument.
        required: Arguments that the model must not leave out.
        encoding: Encodings of the fields of a form, by name: a parameter of a query, or a media type.
        is_required: Whether a body is always sent.
    """

    media_type: str
    members: Mapping[str, str] | None
    whole: str
    properties: Mapping[str, Any]
    required: tuple[str, ...]
    encoding: Mapping[str, Parameter | str] = field(default_factory=dict)
    is_required: bool = False

    def build(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the HTTP client's arguments for the body. Empty if the model passed none.

        Raises:
            InvalidArguments: The value cannot be encoded in this media type.
        """
        value = self._collect(arguments)
        if value is _MISSING:
            return {}
        return {"content": self._encode(value), "headers": {"Content-Type": self.media_type}}

    def _collect(self, arguments: Mapping[str, Any]) -> Any:
        if self.members is None:
            return arguments.get(self.whole, _MISSING)
        value = {name: arguments[argument] for argument, name in self.members.items() if argument in arguments}
        return value if value or self.is_required else _MISSING

    def _encode(self, value: Any) -> bytes:
        return (self._encode_form(value) if self.media_type == FORM else to_text(value, self.media_type)).encode()

    def _encode_form(self, value: Any) -> str:
        if not isinstance(value, Mapping):
            raise InvalidArguments(f"body: a form is an object of its fields, and not {to_text(value)[:50]}.")
        values = {name: drop_nulls(each) for name, each in value.items()}
        known = {name: each for name, each in values.items() if not is_undefined(each)}
        return "&".join(filter(None, (self._encode_field(name, each) for name, each in known.items())))

    def _encode_field(self, name: str, value: Any) -> str:
        encoding = self.encoding.get(name, "")
        if isinstance(encoding, Parameter):
            return encoding.encode(value)
        items = value if isinstance(value, list) and not is_json(encoding) else [value]
        return "&".join(f"{percent_encode(name)}={percent_encode(to_text(item, encoding))}" for item in items)


_MISSING = object()


def make_body(source: Source, request: RequestBody, taken: set[str]) -> Body:
    """Choose the media type of a body, and name its arguments.

    Raises:
        DefinitionError: The document has no content, or only multipart forms.
    """
    if not request.content:
        raise DefinitionError("requestBody has no content: declare its media type.")

    contents = [(_choose_media_type(name), content) for name, content in request.content.items()]
    media_type, content = min(contents, key=lambda each: _rank(each[0]))
    if media_type.lower().startswith(MULTIPART):
        raise DefinitionError(f"requestBody: {media_type} is not supported.")

    shape = source.resolve(content.shape, f"requestBody: {media_type}")
    shape = shape if isinstance(shape, Mapping) else {}
    if not is_json(media_type) and media_type != FORM:
        shape = {"type": "string", "description": f"The request body, as {media_type}."}
        return _make_whole_body(media_type, request, shape, taken)
    if _is_flat(shape, is_required=request.required):
        body = _make_flat_body(media_type, request, shape, taken)
    else:
        whole = content.shape if isinstance(content.shape, Mapping) else {}
        body = _make_whole_body(media_type, request, whole, taken)

    if is_json(media_type):
        return body
    used = {("query", name.casefold()) for name in get_properties(shape)}
    return replace(body, encoding={name: _read_encoding(name, each, used) for name, each in content.encoding.items()})


def _read_encoding(name: str, encoding: Encoding, used: Collection[tuple[str, str]]) -> Parameter | str:
    """Return the encoding of a field: its style, or else its media type (3.1.1, section Encoding Object)."""
    if encoding.style is None and encoding.explode is None:
        return encoding.content_type
    spec = {"name": name, "in": "query", "style": encoding.style, "explode": encoding.explode}
    return Parameter(name, ParameterObject.model_validate(spec), used)


def _choose_media_type(name: str) -> str:
    """Return the media type to send: for a range its default, for a form without parameters."""
    essence = name.partition(";")[0].strip().lower()
    return RANGES.get(essence, essence if essence == FORM else name.strip())


def _rank(media_type: str) -> int:
    """Return the place of a media type in the order of preference, from 0 for JSON."""
    essence = media_type.partition(";")[0].strip().lower()
    if is_json(essence):
        return {JSON: 0, PATCH: 2}.get(essence, 1)
    if essence == FORM:
        return 3
    if essence.startswith("text/"):
        return 4
    return 6 if essence.startswith(MULTIPART) else 5


def _is_flat(shape: Mapping[str, Any], *, is_required: bool) -> bool:
    """Return whether an object's members can be arguments of their own.

    It must have no other members. An optional one must have no required members: it is sent only if one of them is.
    """
    keywords = {keyword for keyword in shape if keyword[:2] != "x-"}
    known = isinstance(shape.get("properties"), Mapping) and shape["properties"]
    is_closed = shape.get("additionalProperties", False) is False
    required = shape.get("required") or []
    is_simple = bool(known) and keywords <= _FLAT and is_closed and isinstance(required, list)
    return is_simple and (is_required or not required)


def _make_whole_body(media_type: str, request: RequestBody, shape: Mapping[str, Any], taken: set[str]) -> Body:
    argument = _name_argument("body", "request", taken)
    schema = {**({"description": request.description} if request.description else {}), **shape}
    required = (argument,) if request.required else ()
    return Body(media_type, None, argument, {argument: schema}, required)


def _make_flat_body(media_type: str, request: RequestBody, shape: Mapping[str, Any], taken: set[str]) -> Body:
    members = {_name_argument(name, "body", taken): name for name in shape["properties"]}
    required = shape.get("required") or ()
    return Body(
        media_type,
        members,
        "",
        {argument: shape["properties"][name] for argument, name in members.items()},
        tuple(argument for argument, name in members.items() if name in required),
        is_required=request.required,
    )
