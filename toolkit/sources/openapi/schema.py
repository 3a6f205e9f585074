"""The schemas of OpenAPI, as they ask for input -> JSON Schema 2020-12.

- 3.0: `nullable`, a Boolean `exclusiveMinimum`, `example`. They mean nothing in 3.1, and are read there all the same.
- `readOnly` properties are answers, not input: they are left out.
- A default is told in words: the server fills it in, and what is sent without being asked for may change something.
- `discriminator`, `xml`, `externalDocs` and `x-...` say nothing about what is valid.

The objects of an OpenAPI document, as far as a call needs them; names and defaults are the specification's.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from toolkit._schema.json_schema import map_schemas
from toolkit._schema.validation.references import Document
from toolkit.errors import DefinitionError

Text = Annotated[str, BeforeValidator(str)]
Flag = Annotated[bool, BeforeValidator(bool)]
Place = Literal["path", "query", "header", "cookie"]
StyleName = Literal["simple", "label", "matrix", "form", "spaceDelimited", "pipeDelimited", "deepObject"]

# References that lead to references, one after the other: more are a circle.
MOST_STEPS = 100


class Object(BaseModel):
    """What is known of an object; what is not is passed by."""

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)

    @model_validator(mode="before")
    @classmethod
    def _without_nothing(cls, given: Any) -> Any:
        """Take what YAML leaves empty for what is left out."""
        return {key: value for key, value in given.items() if value is not None} if isinstance(given, dict) else given


class Server(Object):
    """Where operations are."""

    url: str
    variables: dict[str, Any] = {}


class Encoding(Object):
    """How one property of a form is written."""

    content_type: Text = Field("", alias="contentType")
    style: StyleName | None = None
    explode: bool | None = None
    allow_reserved: bool | None = Field(None, alias="allowReserved")

    @property
    def is_styled(self) -> bool:
        """Whether a style counts, and not the content type: 3.1.1, section Encoding Object."""
        return (self.style, self.explode, self.allow_reserved) != (None, None, None)


class MediaType(Object):
    """What a content of one media type holds."""

    shape: Any = Field({}, alias="schema")
    encoding: dict[str, Encoding] = {}


class ParameterObject(Object):
    """A parameter of an operation."""

    name: str
    place: Place = Field(alias="in")
    description: Text = ""
    required: Flag = False
    deprecated: Flag = False
    style: StyleName | None = None
    explode: bool | None = None
    allow_reserved: Flag = Field(default=False, alias="allowReserved")
    shape: Any = Field({}, alias="schema")
    content: dict[str, MediaType] = {}


class RequestBody(Object):
    """What an operation is sent."""

    description: Text = ""
    content: dict[str, MediaType] = {}
    required: Flag = False


class OperationObject(Object):
    """What one method does at one path."""

    operation_id: Text = Field("", alias="operationId")
    summary: Text = ""
    description: Text = ""
    tags: list[Text] = []
    parameters: list[Any] = []
    body: Any = Field(None, alias="requestBody")
    deprecated: Flag = False
    security: list[dict[str, Any]] | None = None
    servers: list[Server] = []


class PathItem(Object):
    """What all operations at one path share."""

    parameters: list[Any] = []
    servers: list[Server] = []


class SecurityScheme(Object):
    """What lets a caller in."""

    type: str
    name: str = ""
    place: str = Field("", alias="in")
    scheme: str = ""


class Components(Object):
    """What is shared by reference."""

    schemes: dict[str, Any] = Field({}, alias="securitySchemes")


class Root(Object):
    """The document as a whole."""

    servers: list[Server] = []
    paths: dict[str, Any] = {}
    security: list[dict[str, Any]] = []
    components: Components = Field(default_factory=lambda: Components.model_validate({}))


T = TypeVar("T", bound=Object)


@dataclass(frozen=True)
class Source:
    """A document, and the way to what it refers to."""

    document: Document

    def read(self, kind: type[T], part: Any, place: str) -> T:
        """Read an object, or what a reference in its place leads to.

        Raises:
            DefinitionError: It is none, or the reference leads out of the document.
        """
        try:
            return kind.model_validate(self.resolved(part, place))
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(map(str, (place, *first["loc"])))
            raise DefinitionError(f"{where}: {first['msg']}. Mend the document there.") from None

    def resolved(self, part: Any, place: str) -> Any:
        """Follow references from object to object.

        Raises:
            DefinitionError: One leads out of the document, to nothing, or in a circle.
        """
        for _ in range(MOST_STEPS):
            if not (isinstance(part, dict) and isinstance(part.get("$ref"), str)):
                return part
            part = self._followed(part["$ref"], place)
        raise DefinitionError(f"{place}: its $ref leads in a circle.")

    def _followed(self, reference: str, place: str) -> Any:
        try:
            return self.document.at(self.document.target(reference, ""))
        except (DefinitionError, ValueError):  # of urljoin
            lies = "leads to nothing" if reference[:1] == "#" else "lies outside of the document"
            raise DefinitionError(f"{place}: {reference!r} {lies}.") from None


Node = dict[str, Any]

_MUTE = frozenset({"nullable", "discriminator", "xml", "externalDocs", "example", "default"})
# Keywords that a null may break although they name no type.
_BINDING = frozenset({"$ref", "allOf", "anyOf", "oneOf", "not", "const"})
_CHOICES = ("allOf", "anyOf", "oneOf")
_BOUNDS = (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum"))
# Characters of a default that are told.
_TOLD = 200


def translated(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Translate a schema all of whose references lead into its `$defs`."""
    definitions = schema.get("$defs", {})
    asking = map_schemas(schema, partial(_asking, definitions=definitions))
    made: dict[str, Any] = map_schemas(asking, partial(_node, definitions=definitions))
    return made


def is_read_only(schema: Any, definitions: Mapping[str, Any]) -> bool:
    """Whether a property is no input."""
    seen = set[str]()
    while isinstance(schema, Mapping) and schema.get("readOnly") is not True:
        name = str(schema.get("$ref", "")).removeprefix("#/$defs/")
        if name in seen or name not in definitions:
            return False
        seen.add(name)
        schema = definitions[name]
    return isinstance(schema, Mapping)


def _asking(node: Node, definitions: Mapping[str, Any]) -> Node:
    """Ask for no property that is left out, by whatever part of a composition."""
    if node.keys().isdisjoint(("required", *_CHOICES)):
        return node
    names = {name for part in _composed(node, definitions) for name in _left_out(part, definitions)}
    return _without(node, names) if names else node


def parts_of(node: Mapping[str, Any]) -> list[Any]:
    """List the schemas that a schema is composed of."""
    return [each for word in _CHOICES if isinstance(node.get(word), list) for each in node[word]]


def properties_of(node: Mapping[str, Any]) -> dict[str, Any]:
    """Give the properties that a schema itself names."""
    properties = node.get("properties")
    return dict(properties) if isinstance(properties, Mapping) else {}


def _composed(node: Any, definitions: Mapping[str, Any]) -> list[Node]:
    """List a schema, what it is composed of, and what that is."""
    found: list[Node] = []
    waiting, seen = [node], set[str]()
    while waiting:
        part = waiting.pop()
        if not isinstance(part, dict):
            continue
        found.append(part)
        waiting += parts_of(part)
        name = _name(part)
        if name in definitions and name not in seen:
            seen.add(name)
            waiting.append(definitions[name])
    return found


def _name(part: Mapping[str, Any]) -> str:
    return str(part.get("$ref", "")).removeprefix("#/$defs/")


def _left_out(node: Mapping[str, Any], definitions: Mapping[str, Any]) -> list[str]:
    return [name for name, part in properties_of(node).items() if is_read_only(part, definitions)]


def _without(node: Any, names: set[str]) -> Any:
    """Ask for none of these names, in no part that is written here."""
    if not isinstance(node, dict):
        return node
    choices = [word for word in _CHOICES if isinstance(node.get(word), list)]
    made = {word: [_without(each, names) for each in node[word]] for word in choices}
    if isinstance(node.get("required"), list):
        made["required"] = [name for name in node["required"] if name not in names]
    return {**node, **made}


def _node(node: Node, definitions: Mapping[str, Any]) -> Node:
    left_out = _left_out(node, definitions)
    if left_out:
        kept = {name: part for name, part in node["properties"].items() if name not in left_out}
        node = {**node, "properties": kept}
    shown = {keyword: value for keyword, value in node.items() if keyword not in _MUTE and keyword[:2] != "x-"}
    return _nullable(_bounded({**shown, **_told(node)}), is_nullable=node.get("nullable") is True)


def _told(node: Node) -> Node:
    """Tell the example and the default."""
    told: Node = {"examples": [node["example"]]} if "example" in node and "examples" not in node else {}
    if "default" in node:
        default = f"Default: {json.dumps(node['default'], ensure_ascii=False)[:_TOLD]}."
        told["description"] = f"{node.get('description') or ''} {default}".strip()
    return told


def _bounded(node: Node) -> Node:
    for exclusive, bound in _BOUNDS:
        if isinstance(node.get(exclusive), bool):
            rest = {keyword: value for keyword, value in node.items() if keyword not in (exclusive, bound)}
            known = {exclusive if node[exclusive] else bound: node[bound]} if bound in node else {}
            node = {**rest, **known}
    return node


def _nullable(node: Node, *, is_nullable: bool) -> Node:
    if not is_nullable:
        return node
    if isinstance(node.get("type"), str):
        node = {**node, "type": [node["type"], "null"]}
    if isinstance(node.get("enum"), list) and None not in node["enum"]:
        node = {**node, "enum": [*node["enum"], None]}
    if node.keys().isdisjoint(_BINDING):
        return node
    told = {keyword: node[keyword] for keyword in ("description",) if keyword in node}
    return {"anyOf": [{key: value for key, value in node.items() if key not in told}, {"type": "null"}], **told}
