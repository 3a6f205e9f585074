"""Requests from arguments: always to the same host, by the same method, with the same number of path segments.

The caller's headers override all others; a model neither sees nor chooses them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, unquote

from toolkit.errors import DefinitionError, InvalidArguments
from toolkit.sources.openapi.inputs import Body, Parameter

# The name of a header: RFC 9110, section 5.6.2.
TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
TEMPLATE = re.compile(r"\{([^{}/]*)\}")
# A path outside of its templates: no query, no fragment, and nothing that could be read as a slash.
LITERAL = re.compile(r"/([^?#%{}\\\x00-\x1f\x7f]|%[0-9A-Fa-f]{2})*")
# Characters of it that are not encoded (RFC 3986, section 3.3), besides letters, digits and `-._~`.
SAFE = "/%!$&'()*+,;=:@"


@dataclass(frozen=True)
class RequestBuilder:
    """Builds the requests of one operation.

    Attributes:
        base: URL that the path follows.
        path: Path with a template for each of its parameters.
        headers: The caller's headers, which override all others.
        parameters: The parameters that the model fills in.
        body: The body; None if there is none.
    """

    method: str
    base: str
    path: str
    headers: Mapping[str, str] = field(repr=False)
    parameters: Sequence[Parameter]
    body: Body | None

    def __post_init__(self) -> None:
        names = {each.spec.name for each in self.parameters if each.place == "path"}
        missing = next((name for name in TEMPLATE.findall(self.path) if name not in names), None)
        if missing is not None:
            raise DefinitionError(f"the path has {{{missing}}}, and no parameter has that name. Declare it there.")
        if not LITERAL.fullmatch(TEMPLATE.sub("x", self.path)):
            raise DefinitionError(
                "the path is invalid: it begins with '/', and has neither '?' nor '#', nor '/' in braces."
            )

    def build(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments from which the HTTP client builds a request.

        Raises:
            InvalidArguments: An argument cannot be encoded.
        """
        queries = (each.encode(arguments.get(each.argument)) for each in self.parameters if each.place == "query")
        query = "&".join(filter(None, queries))
        url = self.base.rstrip("/") + self._build_path(arguments) + (f"?{query}" if query else "")
        body = self.body.build(arguments) if self.body else {}
        headers = self._build_headers(arguments, body.get("headers", {}))
        return {**body, "method": self.method, "url": url, "headers": headers}

    def _build_path(self, arguments: Mapping[str, Any]) -> str:
        values = {
            each.spec.name: each.encode(arguments.get(each.argument))
            for each in self.parameters
            if each.place == "path"
        }
        parts = enumerate(TEMPLATE.split(self.path))  # every second one is a name
        path = "".join(values[part] if number % 2 else quote(part, safe=SAFE) for number, part in parts)
        for template, segment in zip(self.path.split("/"), path.split("/"), strict=True):
            if template != segment:
                _check_segment(template, segment)
        return path

    def _build_headers(self, arguments: Mapping[str, Any], defaults: Mapping[str, str]) -> dict[str, str]:
        """Return the headers by names in lower case."""
        headers = {"Accept": "application/json, */*;q=0.5", **defaults}
        for each in self.parameters:
            if each.place == "header" and each.has_value(value := arguments.get(each.argument)):
                headers[each.spec.name] = each.encode(value)
        return {name.lower(): value for name, value in {**headers, **self.headers}.items()}


def _check_segment(template: str, segment: str) -> None:
    """Check that a segment stays one segment, even for a server that decodes it too early.

    Raises:
        InvalidArguments: It is empty, or could be read as `.` or `..`.
    """
    steps = [step.partition(";")[0] for step in re.split(r"[/\\]", unquote(segment))]
    if segment == "" or not {".", ".."}.isdisjoint(steps):
        raise InvalidArguments(
            f"{template}: a part of a path must not be empty, '.' or '..', and have no such step in it."
        )
