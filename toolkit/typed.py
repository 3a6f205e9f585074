"""Two types, what a tool needs and what it gives -> an interface; each of them may be a JSON Schema as well."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolkit._schema.json_schema import closed, inlined
from toolkit._schema.parameters import ByDocument, ByType
from toolkit._schema.signature import Returns
from toolkit._schema.validation.references import Document as Parts
from toolkit._schema.validation.references import hoisted
from toolkit.errors import DefinitionError
from toolkit.interfaces import Declaration, Document, checked, named, refuse_private


def of_types(name: str, accepts: Any, gives: Any) -> Declaration:
    """Declare an interface by types, each of which may be a JSON Schema as well.

    Raises:
        DefinitionError: The input is of no object, or has a member that begins with an underscore.
    """
    origin = f"Tool.from_models({name!r})"
    with named(origin):
        built = ByDocument(_document(accepts)) if isinstance(accepts, Mapping) else ByType(accepts)
        returns = Document(hoisted(Parts.of(gives))) if isinstance(gives, Mapping) else Returns(gives)
        made = Declaration(origin, built.schema.get("description", ""), built, returns)
    refuse_private(origin, built.schema["properties"])
    return checked(made)


def _document(given: Mapping[str, Any]) -> dict[str, Any]:
    document = Parts.of(given)
    whole = inlined(document.root)
    if whole.get("type", "object") != "object" or not isinstance(whole.get("properties", {}), Mapping):
        raise DefinitionError('the input of a tool is a JSON Schema {"type": "object", "properties": ...}.')
    built: dict[str, Any] = hoisted(document, part=closed(whole))
    return built
