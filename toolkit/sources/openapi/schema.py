"""The objects of an OpenAPI document, as far as a call needs them, and its schemas as JSON Schema 2020-12.

Names and defaults of the objects are those of the specification. A schema is translated as one for input:

- 3.0: `nullable`, a Boolean `exclusiveMinimum`, `example`. They have no meaning in 3.1, but are read there, too.
- `readOnly` properties belong to responses, so they are left out. Parameters are not read-only.
- A default becomes part of the description: the server fills it in, and sending it unasked may change something.
- `discriminator`, `xml`, `externalDocs` and `x-...` do not restrict values, so they are left out.
- `oneOf` becomes `anyOf`: documents list alternatives that overlap, such as an integer beside a number.
- A pattern that cannot be checked here in bounded time is left out: the server checks it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from toolkit._schema.json_schema import as_mapping, map_schemas, resolve_reference
from toolkit._schema.validation.patterns import drop_unsafe_pattern
from toolkit._schema.validation.pointers import SchemaDocument
from toolkit.errors import DefinitionError

Text = Annotated[str, BeforeValidator(str)]
Flag = Annotated[bool, BeforeValidator(bool)]
Place = Literal["path", "query", "header", "cookie"]
StyleName = Literal["simple", "form", "deepObject"]
Node = dict[str, Any]
T = TypeVar("T", bound="SpecObject")
MAX_STEPS = 100  # references that lead to each other; more count as a circle
_MAX_DEFAULT = 200  # characters of a default in a description
_IGNORED = frozenset({"nullable", "readOnly", "discriminator", "xml", "externalDocs", "example", "default"})
# Keywords that may reject null beside a type that allows it.
_CONSTRAINTS = frozenset({"$ref", "allOf", "anyOf", "oneOf", "not", "const", "enum"})
_BOUNDS = (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum"))


class SpecObject(BaseModel):
    """An object of the specification. Unknown members are ignored."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="ignore", defer_build=True)

    @model_validator(mode="before")
    @classmethod
    def _drop_nulls(cls, data: Any) -> Any:
        """Treat members that YAML leaves empty as left out."""
        if not isinstance(data, dict):
            return data
        return {key: value for key, value in data.items() if value is not None}


class Server(SpecObject):
    """A server of operations."""

    url: str


class Encoding(SpecObject):
    """The encoding of one property of a form."""

    content_type: Text = Field("", alias="contentType")
    style: StyleName | None = None
    explode: bool | None = None


class MediaType(SpecObject):
    """The content of one media type."""

    shape: Any = Field({}, alias="schema")
    encoding: dict[str, Encoding] = {}


class ParameterObject(SpecObject):
    """A parameter of an operation."""

    name: str
    place: Place = Field(alias="in")
    description: Text = ""
    required: Flag = False
    deprecated: Flag = False
    style: StyleName | None = None
    explode: bool | None = None
    shape: Any = Field({}, alias="schema")
    content: dict[str, MediaType] = {}


class RequestBody(SpecObject):
    """The body of a request."""

    description: Text = ""
    content: dict[str, MediaType] = {}
    required: Flag = False


class OperationObject(SpecObject):
    """One method at one path."""

    operation_id: Text = Field("", alias="operationId")
    summary: Text = ""
    description: Text = ""
    tags: list[Text] = []
    parameters: list[Any] = []
    body: Any = Field(None, alias="requestBody")
    deprecated: Flag = False
    servers: list[Server] = []


class PathItem(SpecObject):
    """The parameters and servers that all operations at one path share."""

    parameters: list[Any] = []
    servers: list[Server] = []


class Root(SpecObject):
    """The document as a whole."""

    servers: list[Server] = []
    paths: dict[str, Any] = {}


@dataclass(frozen=True)
class Source:
    """A document and its references."""

    document: SchemaDocument

    def parse(self, kind: type[T], part: Any, place: str) -> T:
        """Parse an object, or the object that a reference leads to.

        Raises:
            DefinitionError: The object or the reference is invalid.
        """
        try:
            return kind.model_validate(self.resolve(part, place))
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(map(str, (place, *first["loc"])))
            raise DefinitionError(f"{where}: {first['msg']}. Correct the document there.") from None

    def resolve(self, part: Any, place: str) -> Any:
        """Follow references until there is an object.

        Raises:
            DefinitionError: A reference leads out of the document, to nothing, or in a circle.
        """
        for _ in range(MAX_STEPS):
            if not (isinstance(part, dict) and isinstance(part.get("$ref"), str)):
                return part
            reference = part["$ref"]
            try:
                part = self.document.look_up(self.document.resolve(reference, ""))
            except (DefinitionError, ValueError):  # urljoin raises ValueError
                fault = "leads to nothing" if reference[:1] == "#" else "is outside of the document"
                raise DefinitionError(f"{place}: {reference!r} {fault}.") from None
        raise DefinitionError(f"{place}: its $ref leads in a circle.")


def translate(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Translate a schema to JSON Schema 2020-12. Its references all lead into its `$defs`."""
    read_only = set[str]()

    def drop_read_only(node: Node) -> Node:
        parts = get_properties(node).items()
        names = {name for name, part in parts if resolve_reference(as_mapping(part), schema).get("readOnly") is True}
        read_only.update(names)
        if not names:
            return node
        return {**node, "properties": {name: part for name, part in node["properties"].items() if name not in names}}

    def drop_required(node: Node) -> Node:
        """Require no property that was left out here, or in another part of a composition."""
        if not isinstance(node.get("required"), list):
            return node
        left_out = [*(read_only - get_properties(node).keys())]  # a list, as a malformed name may have no hash
        return {**node, "required": [name for name in node["required"] if name not in left_out]}

    written = map_schemas(schema, drop_read_only)
    translated: dict[str, Any] = map_schemas(written, lambda node: _translate_node(drop_required(node)))
    return translated


def _translate_node(node: Node) -> Node:
    rest = {keyword: value for keyword, value in node.items() if keyword not in _IGNORED and keyword[:2] != "x-"}
    if "oneOf" in rest and "anyOf" not in rest:
        rest["anyOf"] = rest.pop("oneOf")
    written = drop_unsafe_pattern({**rest, **_describe_default(node)})
    converted = _convert_bounds(written)
    return _add_null(converted) if node.get("nullable") is True else converted


def _describe_default(node: Node) -> Node:
    """Turn the example into `examples`, and the default into a part of the description."""
    described: Node = {"examples": [node["example"]]} if "example" in node and "examples" not in node else {}
    if "default" in node:
        default = f"Default: {json.dumps(node['default'], ensure_ascii=False)[:_MAX_DEFAULT]}."
        described["description"] = f"{node.get('description') or ''} {default}".strip()
    return described


def _convert_bounds(node: Node) -> Node:
    for exclusive, bound in _BOUNDS:
        if isinstance(node.get(exclusive), bool):
            rest = {keyword: value for keyword, value in node.items() if keyword not in (exclusive, bound)}
            known = {exclusive if node[exclusive] else bound: node[bound]} if bound in node else {}
            node = {**rest, **known}
    return node


def _add_null(node: Node) -> Node:
    """Allow null: as a type if nothing else rejects it, so that an object stays one that others can be joined with."""
    if isinstance(node.get("type"), str) and node.keys().isdisjoint(_CONSTRAINTS):
        return {**node, "type": [node["type"], "null"]}
    description = {keyword: node[keyword] for keyword in ("description",) if keyword in node}
    rest = {keyword: value for keyword, value in node.items() if keyword not in description}
    return {"anyOf": [rest, {"type": "null"}], **description}


def get_properties(node: Mapping[str, Any]) -> dict[str, Any]:
    """Return the properties that a schema itself names."""
    properties = node.get("properties")
    return dict(properties) if isinstance(properties, Mapping) else {}
