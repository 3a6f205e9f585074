"""An OpenAPI document, in whatever form it is given, as plain data."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

from pydantic_core import PydanticSerializationError, from_json, to_json

from toolkit.errors import DefinitionError

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
        from toolkit.builtin.openapi.yaml import parsed

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
