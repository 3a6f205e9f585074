"""The objects of an OpenAPI document, as far as a call needs them; names and defaults are the specification's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

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
