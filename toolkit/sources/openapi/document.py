"""An OpenAPI document: loading it, its operations, and its servers.

Requests go to the server that the caller or the document names, never to one that a model chose.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from pydantic_core import PydanticSerializationError, from_json, to_json

from toolkit._guards.http_client import check_base_url
from toolkit._guards.options import check_texts
from toolkit._messages import Effect
from toolkit._schema.error_messages import suggest
from toolkit._tools.tool import safe_name
from toolkit.errors import DefinitionError
from toolkit.sources.openapi.schema import OperationObject, PathItem, Root, Server, Source

# The document as data, as text in JSON, or the path of such a file.
DocumentInput: TypeAlias = Mapping[str, Any] | str | os.PathLike[str]
# Effects of the methods: RFC 9110, section 9.2. TRACE is left out, since its response repeats the keys sent.
EFFECTS: Mapping[str, Effect] = {
    "GET": "read",
    "HEAD": "read",
    "OPTIONS": "read",
    "POST": "write",
    "PUT": "write",
    "PATCH": "write",
    "DELETE": "destructive",
}
IDEMPOTENT = frozenset({"GET", "HEAD", "OPTIONS", "PUT", "DELETE"})
# Of the additions in 3.2, `querystring` is refused; the method QUERY and `additionalOperations` make no tools.
VERSIONS = ("3.0", "3.1", "3.2")


def load_document(document: DocumentInput) -> dict[str, Any]:
    """Load an OpenAPI document. Nothing is fetched.

    Raises:
        DefinitionError: The document is invalid, or of a version that is not supported.
        OSError: Its file cannot be read.
    """
    try:
        if isinstance(document, Mapping):  # copied, so that later changes have no effect
            root = from_json(to_json(document, inf_nan_mode="constants"), allow_inf_nan=False)
        else:
            root = from_json(_read_text(document))
    except (PydanticSerializationError, ValueError, TypeError) as error:
        remedy = "For YAML, pass the data: openapi_tools(yaml.safe_load(text))."
        raise DefinitionError(f"The OpenAPI document is not JSON: {error}. {remedy}") from error

    if not isinstance(root, dict) or root.keys().isdisjoint(("openapi", "swagger")):
        raise DefinitionError("An OpenAPI document is an object with the keys 'openapi', 'info' and 'paths'.")
    _check_version(root)
    return root


def _read_text(document: str | os.PathLike[str]) -> str:
    if not isinstance(document, (str, os.PathLike)):
        raise DefinitionError(f"An OpenAPI document is data, text, or a path, not {document!r:.100}.")
    if isinstance(document, str):
        document = document.removeprefix("\ufeff")
        if "\n" in document or document.lstrip()[:1] == "{":
            return document
        if "://" in document:
            raise DefinitionError(
                f"{document!r:.100} is an address, and nothing is fetched here. Pass its text: httpx2.get(...).text."
            )
    return Path(document).read_text(encoding="utf-8-sig")


def _check_version(root: Mapping[str, Any]) -> None:
    if "swagger" in root:
        raise DefinitionError(
            f"This is Swagger {root['swagger']}, and only OpenAPI 3.0 and later are supported. Convert it once, with "
            f"`npx swagger2openapi` or at https://converter.swagger.io."
        )
    version = str(root["openapi"])
    if not version.startswith(VERSIONS):
        raise DefinitionError(f"openapi={version!r:.100}: the supported versions are {', '.join(VERSIONS)}.")


@dataclass(frozen=True)
class Operation:
    """One method at one path.

    Attributes:
        name: The tool's name.
        spec: The operation object.
        path_item: The object of the path.
        fault: Why the operation cannot be parsed; empty if it can.
    """

    method: str
    path: str
    name: str
    spec: OperationObject
    path_item: PathItem
    fault: str = ""

    @property
    def label(self) -> str:
        """Method and path, as in `GET /pets`."""
        return f"{self.method} {self.path}".strip()

    def matches(self, word: str) -> bool:
        """Return whether a word selects the operation: its name, operation id, tag, path, or a parent of its path."""
        if word[:1] != "/":
            return word != "" and word in (self.name, self.spec.operation_id, *self.spec.tags)
        return self.path == word or self.path.startswith(f"{word.rstrip('/')}/")


def list_operations(source: Source, root: Root) -> list[Operation]:
    """List all operations, faulty ones too. Their names do not depend on which of them are selected.

    A path that cannot be parsed is an operation without a method.
    """
    listed = list[Operation]()
    taken = set[str]()
    for path, part in root.paths.items():
        if path[:2] == "x-" or part is None:
            continue
        try:
            methods: Any = source.resolve(part, "path")
            item = source.parse(PathItem, methods, "path")
        except DefinitionError as error:
            empty = OperationObject.model_validate({}), PathItem.model_validate({})
            listed.append(Operation("", path, path, *empty, str(error)))
            continue
        for method in EFFECTS:
            if methods.get(method.lower()) is not None:
                spec, fault = _parse_operation(source, methods[method.lower()])
                own = spec.operation_id or re.sub(r"[^A-Za-z0-9]+", "_", f"{method.lower()}{path}").strip("_")
                name = choose_name([safe_name(own)], f"{method} {path}", taken)
                listed.append(Operation(method, path, name, spec, item, fault))

    return listed


def _parse_operation(source: Source, part: Any) -> tuple[OperationObject, str]:
    """Return an operation and its fault. One that cannot be parsed has only its id, by which it can be excluded."""
    try:
        return source.parse(OperationObject, part, "operation"), ""
    except DefinitionError as error:
        known = {"operationId": part["operationId"]} if isinstance(part, dict) and "operationId" in part else {}
        return OperationObject.model_validate(known), str(error)


def choose_name(names: Sequence[str], label: str, taken: set[str]) -> str:
    """Choose the first free name, else the last one with a hash of the label, and add it to the taken names."""
    digest = hashlib.sha256(label.encode()).hexdigest()
    hashed = [f"{names[-1][:55]}_{digest[start : start + 8]}" for start in range(len(digest) - 7)]
    chosen = next(name for name in (*names, *hashed) if name not in taken)
    taken.add(chosen)
    return chosen


def select_operations(
    operations: list[Operation],
    include: Collection[str] | None,
    exclude: Collection[str],
    methods: Collection[str],
    *,
    deprecated: bool,
) -> list[Operation]:
    """Select operations.

    Raises:
        DefinitionError: A word selects no operation, a method is not supported, or no operation is left.
    """
    for option, selectors in (("include", () if include is None else include), ("exclude", exclude)):
        for word in check_texts(option, selectors):
            if not any(operation.matches(word) for operation in operations):
                hint = suggest(word, [operation.name for operation in operations])
                raise DefinitionError(
                    f"{option}: {word!r} is not an operation, a tag, or a path that begins with '/'{hint}"
                )

    wanted = {method.upper() for method in check_texts("methods", methods)}
    if wanted - EFFECTS.keys():
        raise DefinitionError(f"methods={sorted(wanted)}: a tool may use {', '.join(EFFECTS)}.")

    chosen = [
        operation
        for operation in operations
        if operation.method in (*wanted, "")
        and (deprecated or not operation.spec.deprecated)
        and (include is None or any(map(operation.matches, include)))
        and not any(map(operation.matches, exclude))
    ]
    if not operations:
        raise DefinitionError("The document's paths have no operations.")
    if not chosen:
        raise DefinitionError(
            f"None of the document's {len(operations)} operations is left: check include=, exclude=, methods= and "
            f"deprecated=."
        )
    return chosen


def find_server_url(servers: Sequence[Server]) -> str:
    """Return the URL of the first server.

    Raises:
        DefinitionError: The first server names no host, or has variables.
    """
    url = servers[0].url if servers else "/"
    if "://" not in url or "{" in url:
        fault = (
            f"The server {url!r:.100} of the document is not a whole URL" if servers else "The document has no server"
        )
        raise DefinitionError(f"{fault}. Pass base_url='https://...'.")
    return check_base_url("servers", url)
