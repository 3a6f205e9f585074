"""What a model is shown of a tool, and of the answer that it is to give: plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class ToolSpec:
    """A tool as a model may see it: plain data, no function.

    Attributes:
        parameters: JSON Schema (draft 2020-12) of the arguments, of type object.
        output: JSON Schema of what the tool gives, where it says so.
        title: A name for people, for protocols that show tools to people.
        strict: Whether the provider is to enforce the schema; None leaves that to the dialect.
        namespace: A group that the tool is shown in, where the provider knows groups.
        activity: What carries the tool out; empty where the model does; None where nothing was said about it.
        about: What the model is to say of a call beside its arguments: schemas by key.
        module: Where the tool is carried out apart from the run; empty where it is not.
        defer_loading: Whether the provider shows the parameters only once the model looks for the tool, where it can.
        forms: How `parameters` is shown, kept by dialects; other specs with the same schema may share it.
        shown: The wire forms of the tool, kept by dialects.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    output: Mapping[str, Any] | None = None
    title: str | None = None
    strict: bool | None = None
    namespace: str | None = None
    activity: str | None = None
    about: Mapping[str, Any] = field(default_factory=dict)
    module: str = ""
    defer_loading: bool = False
    forms: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)
    shown: dict[Any, Any] = field(default_factory=dict, init=False, compare=False, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "forms": {}, "shown": {}}  # they are made again where they are needed


@dataclass(kw_only=True)
class OutputSpec:
    """What the answers of one run have to be: plain data, no type.

    Attributes:
        spec: The answer as the arguments of a tool, whose schema is the answer's own.
        by_tool: Whether the answer is a call of that tool: set where a server refuses `response_format`, and kept for
            the rest of the run.
    """

    spec: ToolSpec
    by_tool: bool = False
