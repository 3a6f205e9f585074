"""YAML as its version 1.2 reads it: `no` and `2024-05-01` are texts, as in the JSON that a document stands for.

The operations of a document: what each is called, and which of them are wanted.

An OpenAPI document, in whatever form it is given, as plain data.

Where requests go: what the caller says, or the document; never the model.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias
from urllib.parse import urljoin

import httpx2
from pydantic_core import PydanticSerializationError, from_json, to_json

from toolkit._guards.options import texts
from toolkit._tools.options import Effect
from toolkit._tools.tool import safe_name
from toolkit.errors import DefinitionError
from toolkit.sources.openapi.schema import OperationObject, PathItem, Root, Server, Source

# What each method does to the world: RFC 9110, section 9.2. TRACE is none of them: its answer repeats the keys sent.
EFFECTS: Mapping[str, Effect] = MappingProxyType(
    {
        "GET": "read",
        "HEAD": "read",
        "OPTIONS": "read",
        "POST": "write",
        "PUT": "write",
        "PATCH": "write",
        "DELETE": "destructive",
    }
)
IDEMPOTENT = frozenset({"GET", "HEAD", "OPTIONS", "PUT", "DELETE"})


@dataclass(frozen=True)
class Operation:
    """What one method does at one path.

    Attributes:
        name: The tool's.
        told: What the document says of it.
        item: What it says of the path.
        fault: Why it cannot be read; empty where it can.
    """

    method: str
    path: str
    name: str
    told: OperationObject
    item: PathItem
    fault: str = ""

    @property
    def label(self) -> str:
        """The operation as people write it."""
        return f"{self.method} {self.path}".strip()

    @property
    def words(self) -> Collection[str]:
        """What it may be chosen by, besides its path."""
        return {self.name, self.told.operation_id, *self.told.tags} - {""}

    def matches(self, word: str) -> bool:
        """Whether it is meant by a word: a name, an operation id, a tag, or a path that it lies at or under."""
        if word[:1] != "/":
            return word in self.words
        return self.path == word or self.path.startswith(f"{word.rstrip('/')}/")


def operations(source: Source, root: Root, prefix: str) -> list[Operation]:
    """List all operations, faulty ones too; their names do not depend on which of them are wanted."""
    taken = set[str]()
    made = []
    for each in _listed(source, root):
        usual = re.sub(r"[^A-Za-z0-9]+", "_", f"{each.method.lower()}{each.path}").strip("_")
        name = _free(_name(prefix, each.told.operation_id or usual), each.label, taken) if each.method else each.path
        taken.add(name)
        made.append(replace(each, name=name))
    return made


def selected(
    offered: list[Operation],
    include: Collection[str] | None,
    exclude: Collection[str],
    methods: Collection[str],
    *,
    deprecated: bool,
) -> list[Operation]:
    """Choose operations.

    Raises:
        DefinitionError: A word chooses nothing, or all of them together do.
    """
    for option, words in (("include", () if include is None else include), ("exclude", exclude)):
        _check_words(option, words, offered)
    wanted = {method.upper() for method in texts("methods", methods)}
    if wanted - EFFECTS.keys():
        raise DefinitionError(f"methods={sorted(wanted)}: those that a tool may use are {', '.join(EFFECTS)}.")
    chosen = [
        operation
        for operation in offered
        if operation.method in (*wanted, "")
        and (deprecated or not operation.told.deprecated)
        and (include is None or any(map(operation.matches, include)))
        and not any(map(operation.matches, exclude))
    ]
    if not chosen:
        raise DefinitionError(
            f"Of the document's {len(offered)} operations none is left: look at include=, exclude=, methods= and "
            f"deprecated=."
        )
    return chosen


def _check_words(option: str, words: Collection[str], offered: list[Operation]) -> None:
    for word in texts(option, words):
        if not any(operation.matches(word) for operation in offered):
            names = ", ".join(operation.name for operation in offered[:20])
            raise DefinitionError(
                f"{option}: {word!r} is no operation, no tag, and no path that begins with '/'. There are: {names}."
            )


def _listed(source: Source, root: Root) -> Iterator[Operation]:
    """List the operations, without names; a path that cannot be read is one, of no method."""
    paths = {path: part for path, part in root.paths.items() if path[:2] != "x-" and part is not None}
    for path, part in paths.items():
        try:
            methods: Any = source.resolved(part, "path")
            item = source.read(PathItem, methods, "path")
        except DefinitionError as error:
            nothing = OperationObject.model_validate({}), PathItem.model_validate({})
            yield Operation("", path, "", *nothing, str(error))
            continue
        for method in EFFECTS:
            if methods.get(method.lower()) is not None:
                yield _read(source, method, path, item, methods[method.lower()])


def _read(source: Source, method: str, path: str, item: PathItem, part: Any) -> Operation:
    try:
        return Operation(method, path, "", source.read(OperationObject, part, "operation"), item)
    except DefinitionError as error:
        known = {"operationId": part["operationId"]} if isinstance(part, dict) and "operationId" in part else {}
        return Operation(method, path, "", OperationObject.model_validate(known), item, str(error))


def _name(prefix: str, name: str) -> str:
    return safe_name(f"{prefix}__{name}" if prefix else name)


def _free(name: str, label: str, taken: Collection[str]) -> str:
    """Name an operation; the second of a name, and those after it, by method and path too."""
    digest = hashlib.sha256(label.encode()).hexdigest()
    choices = [name, *(f"{name[:55]}_{digest[start : start + 8]}" for start in range(len(digest) - 7))]
    return next(choice for choice in choices if choice not in taken)


# The document as data, its text in JSON or YAML, or the path of its file.
Given: TypeAlias = Mapping[str, Any] | str | os.PathLike[str]

# Of what 3.2 adds to 3.1, `querystring` is refused; the method QUERY and `additionalOperations` make no tools.
VERSIONS = ("3.0", "3.1", "3.2")


def read(document: Given) -> dict[str, Any]:
    """Read an OpenAPI document; nothing is fetched.

    Raises:
        DefinitionError: It is none of a version that is understood.
        ImportError: It is YAML, and the extra `openapi` is not installed.
        OSError: Its file cannot be read.
    """
    root = _copied(document) if isinstance(document, Mapping) else _parsed(_text(document))
    if not isinstance(root, dict):
        raise DefinitionError("An OpenAPI document is an object with the keys 'openapi', 'info' and 'paths'.")
    _check_version(root)
    return root


def _copied(document: Mapping[str, Any]) -> Any:
    """Copy it, so that nobody changes it later; keys that YAML reads as numbers become texts."""
    try:
        return from_json(to_json(document, inf_nan_mode="constants"), allow_inf_nan=False)
    except (PydanticSerializationError, ValueError, TypeError) as error:
        raise DefinitionError(f"The OpenAPI document is not JSON ({error}). Build it of plain values.") from error


def _text(document: str | os.PathLike[str]) -> str:
    if not isinstance(document, (str, os.PathLike)):
        raise DefinitionError(f"The OpenAPI document is no {type(document).__name__}, but data, a text, or a path.")
    if isinstance(document, str):
        document = document.removeprefix("\ufeff")
        if "\n" in document or document.lstrip()[:1] == "{":
            return document
        if "://" in document:
            raise DefinitionError(
                f"{document!r} is an address, and nothing is fetched here. Pass its text: httpx2.get(...).text."
            )
    return Path(document).read_text(encoding="utf-8-sig")


def _parsed(text: str) -> Any:
    if text.lstrip()[:1] != "{":
        return _copied({"document": parsed(text)})["document"]
    try:
        return from_json(text)
    except ValueError as error:
        raise DefinitionError(f"The OpenAPI document begins as JSON and is none: {error}.") from error


def _check_version(root: Mapping[str, Any]) -> None:
    if "swagger" in root:
        raise DefinitionError(
            f"This is Swagger {root['swagger']}, and OpenAPI 3.0 and later are understood. Convert it once, with "
            f"`npx swagger2openapi` or at https://converter.swagger.io."
        )
    version = str(root.get("openapi", ""))
    if not version.startswith(VERSIONS):
        raise DefinitionError(f"openapi={version!r}: the versions that are understood are {', '.join(VERSIONS)}.")


def base_of(servers: Sequence[Server], base_url: str | None) -> str:
    """Find what the paths of operations follow.

    Args:
        servers: The document's; the first counts, with the defaults of its variables. A relative one follows base_url.
        base_url: The caller's, checked, in the place of one that names a host.

    Raises:
        DefinitionError: Neither says where the server is.
    """
    told = _filled(servers[0]) if servers else ""
    if base_url is not None:
        return _following(base_url, told)
    if "://" not in told:
        raise DefinitionError(
            f"The document does not say at which host its server {told or '/'!r} is. Pass base_url='https://...'."
        )
    return checked(told)


def join(base: str, path: str) -> str:
    """Put a path behind a base."""
    return base.rstrip("/") + path


def origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    """Tell who answers at an address."""
    return url.scheme, url.host, url.port


def _following(base_url: str, told: str) -> str:
    """Join what the document says, unless that leads to another host: how addresses are read differs too much."""
    if "://" in told or told.strip("/") == "":
        return base_url
    try:
        joined = urljoin(base_url, told)
        is_elsewhere = origin(httpx2.URL(joined)) != origin(httpx2.URL(base_url))
    except (ValueError, httpx2.InvalidURL) as error:
        raise DefinitionError(f"The server {told!r} is no address: {error}.") from error
    return base_url if is_elsewhere else checked(joined)


def _filled(server: Server) -> str:
    def default(found: re.Match[str]) -> str:
        told: Any = server.variables.get(found[1])
        if not isinstance(told, dict) or "default" not in told:
            raise DefinitionError(f"The server {server.url!r} has no default for {found[1]!r}. Pass base_url=.")
        return str(told["default"])

    return re.sub(r"\{([^{}]*)\}", default, server.url)


def checked(url: str) -> str:
    """Check an address that paths can follow.

    Raises:
        DefinitionError: It is none.
    """
    try:
        read = httpx2.URL(url)
    except httpx2.InvalidURL as error:
        raise DefinitionError(f"The base address {url!r} is none: {error}.") from error
    if read.scheme not in ("http", "https") or not read.host:
        raise DefinitionError(f"The base address {url!r} is none of the form 'https://host/path'. Pass base_url=.")
    if read.userinfo or not {"?", "#"}.isdisjoint(url):
        raise DefinitionError("The base address has a user, a query or a fragment: leave it out; auth= takes the keys.")
    return url


# Keys and values of a document, each as often as aliases repeat it: a few lines of them can stand for billions.
MOST = 5_000_000

# YAML 1.2.2, section 10.3.2, core schema: what is written so, and not quoted, is no text.
_BOOL, _NULL = r"true|True|TRUE|false|False|FALSE", r"~|null|Null|NULL|"
_INT, _FLOAT = r"[-+]?[0-9]+", r"[-+]?(\.[0-9]+|[0-9]+\.[0-9]*)([eE][-+]?[0-9]+)?|[-+]?[0-9]+[eE][-+]?[0-9]+"
# Each with the characters that it may begin with.
_PLAIN = (
    ("bool", _BOOL, "tTfF"),
    ("null", _NULL, ["~", "n", "N", ""]),
    ("int", _INT, "-+0123456789"),
    ("float", _FLOAT, "-+.0123456789"),
    ("merge", "<<", "<"),
)


def parsed(text: str) -> Any:
    """Read a YAML text.

    Raises:
        DefinitionError: It is none, or its aliases make it too large.
        ImportError: The extra `openapi` is not installed.
    """
    if find_spec("yaml") is None:
        raise ImportError('OpenAPI documents in YAML need an extra: pip install "function-toolkit[openapi]".')
    import yaml

    try:
        return _constructed(_loader()(text))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise DefinitionError(f"The OpenAPI document is neither JSON nor YAML: {error}") from error


def _constructed(loader: Any) -> Any:
    """Make the values; they are counted before, for to merge is to copy."""
    try:
        node = loader.get_single_node()
        if _size(node, {}) > MOST:
            raise DefinitionError(f"The OpenAPI document has more than {MOST:,} keys and values: use fewer aliases.")
        return None if node is None else loader.construct_document(node)
    finally:
        loader.dispose()


def _loader() -> Any:
    import yaml

    class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # one of two, by what is built
        yaml_implicit_resolvers: dict[Any, Any] = {}  # noqa: RUF012  of the class, as PyYAML wants it

    for tag, pattern, first in _PLAIN:
        Loader.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(rf"(?:{pattern})\Z"), list(first))
    Loader.add_constructor("tag:yaml.org,2002:int", lambda loader, node: int(loader.construct_scalar(node)))
    return Loader


def _size(node: Any, known: dict[int, int]) -> int:
    """Count nodes, each that is shared as often as it is used."""
    if not isinstance(getattr(node, "value", None), list):
        return 1
    if id(node) not in known:
        known[id(node)] = MOST  # what holds itself is endless
        inner = (each for part in node.value for each in (part if isinstance(part, tuple) else (part,)))
        known[id(node)] = 1 + sum(_size(each, known) for each in inner)
    return known[id(node)]
