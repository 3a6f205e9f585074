"""The request that a gate decides on: a call, its arguments as people see them, and the digest that binds a decision.

People see everything that the model wrote, except secrets. A digest is the same in every process and for any order of
keys. It covers what the model wrote, so a default that the tool makes for each call is not part of it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from toolkit._context import ToolContext, discard
from toolkit._messages import ToolCall
from toolkit._options import explain_missing
from toolkit._schema.json_schema import as_list, as_mapping, is_secret, resolve_reference
from toolkit._schema.json_text import escape_confusable, load_json, make_digest, to_json_text
from toolkit._tools.handlers import Handler
from toolkit._tools.tool import Tool, find_instance, name_function
from toolkit.errors import DefinitionError, InvalidArguments
from toolkit.events import ApprovalNeeded, PendingApproval

# Increased when the digest covers something else. A saved approval of another version is asked for again.
DIGEST_VERSION = 4
MASK = "**********"  # as pydantic writes one

_TYPES: Mapping[type, str] = {dict: "object", list: "array", str: "string"}


class ArgumentsView(Mapping[str, Any]):
    """The arguments of a call for gates: each access returns a copy, so that no gate can change what runs."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def __getitem__(self, name: str) -> Any:
        return deepcopy(self._values[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return repr(dict(self._values))


@dataclass(frozen=True)
class ApprovalRequest:
    """A call that needs a decision. `str(request)` is its name and its arguments, with nothing hidden.

    Attributes:
        tool: The tool.
        arguments: The typed values that the tool will get. Each access returns a copy.
        context: The context that the tool will get. It is `cancelled` when an answer is no longer needed.
        call: The call as the model wrote it, with references replaced by their values.
        imports: The shared values that the call imports, by path.
        foreign: The tools with `trust="foreign"` that the run has called, in alphabetical order.
        required: Whether the tool itself requires approval.
        emit: A function that adds an event to the run.
    """

    tool: Tool[..., Any]
    arguments: Mapping[str, Any]
    context: ToolContext[Any]
    call: ToolCall = field(default=ToolCall(name=""), compare=False)
    imports: Mapping[str, Any] = field(default_factory=dict, compare=False)
    foreign: tuple[str, ...] = field(default=(), compare=False)
    required: bool = field(default=False, compare=False)
    emit: Callable[[ApprovalNeeded], object] = field(default=discard, compare=False, repr=False)

    if not TYPE_CHECKING:  # type checkers report missing attributes themselves
        __getattr__ = explain_missing(
            ("tool_name", "request.name"),
            ("args input kwargs", "request.arguments"),
            ("description", "request.tool.description"),
            ("effect", "request.tool.settings.effect"),
            ("call_id id", "request.call.id"),
            ("deps", "request.context.deps"),
        )

    def __post_init__(self) -> None:
        if not self.call.name:
            call = ToolCall(name=self.tool.name, arguments=to_json_text(dict(self.arguments)))
            object.__setattr__(self, "call", call)
        if not isinstance(self.arguments, ArgumentsView):
            object.__setattr__(self, "arguments", ArgumentsView(self.arguments))

    def __str__(self) -> str:
        imports = f" with {self.imports_json}" if self.imports else ""
        return f"{self.name}({self.arguments_json}){imports}"

    @property
    def name(self) -> str:
        """The tool's name."""
        return self.tool.name

    @cached_property
    def digest(self) -> str:
        """Identifies what is approved: the run, the call, the tool's definition, the arguments, the imported values.

        Raises:
            DefinitionError: The tool's instance states its `identity` by a method, which would be ignored.
        """
        instance = find_instance(self.tool)
        if callable(getattr(instance, "identity", None)):
            raise DefinitionError(
                f"{type(instance).__qualname__}.identity is a method, so approvals that wait cannot be bound to an "
                "object. Make it a @property or an attribute, whose value is a text."
            )
        return digest_call(self.tool, self.call, self.context.run_id, self.imports)

    @property
    def arguments_json(self) -> str:
        """The arguments as JSON, with invisible and misleading characters escaped: see `render_arguments`."""
        return self.render_arguments()

    @property
    def imports_json(self) -> str:
        """The imported values as JSON, written like the arguments."""
        return to_shown_json(self.imports)

    def render_arguments(self, indent: int | None = None) -> str:
        """Write the arguments as JSON: what the model wrote, and the defaults of the tool's schema.

        Secrets are shown as asterisks. Defaults that are made for each call are not shown.

        Args:
            indent: Spaces of indentation; None writes one line.
        """
        return to_shown_json(show_arguments(self.tool, self.call), indent)

    def to_pending(self, reason: str = "") -> PendingApproval:
        """Return the request as plain data."""
        return PendingApproval(
            call=self.call,
            digest=self.digest,
            arguments=self.arguments_json,
            title=escape_confusable(self.tool.title or ""),
            effect=self.tool.settings.effect or "",
            reason=reason,
            source=escape_confusable(self.tool.origin),
            imports=self.imports_json if self.imports else "",
            agent=self.context.agent,
        )

    def announce(self) -> None:
        """Emit `ApprovalNeeded` with the request."""
        self.emit(ApprovalNeeded(self.to_pending()))


def digest_call(tool: Tool[..., Any], call: ToolCall, run_id: str, imports: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a call: its run, its id, its tool's definition, its arguments and what it imports."""
    try:
        arguments = load_json(call.arguments)
    except ValueError:  # the text is repaired before the call runs, always in the same way
        arguments = call.arguments
    return make_digest([run_id, call.id, digest_definition(tool), arguments, dict(imports)])


def digest_definition(tool: Tool[..., Any]) -> str:
    """Return the SHA-256 of a tool's definition: name, function, description, parameters, effect, and what it reaches.

    The function counts by its qualified name without its module: a function in another file is still the same. What it
    reaches is the function that is bound to it, by its name and its activity, and the `identity` that its instance
    states, such as a directory.
    """
    definition = [tool.name, name_function(tool), tool.description, tool.parameters, tool.settings.effect]
    return make_digest([DIGEST_VERSION, *definition, *_get_reach(tool.handler)])


def _get_reach(handler: Handler) -> list[str | None]:
    function = handler.function_handler
    if function is None:
        return []
    identity = getattr(find_instance(function), "identity", None)
    own = "" if identity is None or callable(identity) else str(identity)
    if function is handler:
        return [own]
    return [getattr(function.signature.source, "__qualname__", ""), handler.activity, own]


def show_arguments(tool: Tool[..., Any], call: ToolCall) -> Any:
    """Return the arguments of a call as plain data, with the defaults of the tool's schema, and secrets as asterisks.

    Only objects whose keys the schema names get defaults: any other key may be the alias of one of them.
    """
    try:
        written = tool._invocation.parser.parse_document(call.arguments)
    except InvalidArguments:  # possible only for a request that a user has made
        written = load_json(call.arguments)
    return _show(written, tool.parameters, tool.parameters)


def _show(written: Any, schema: Any, root: Mapping[str, Any]) -> Any:
    schema = _choose(written, schema, root)
    if isinstance(written, str):
        return MASK if is_secret(schema) else written
    if isinstance(written, list):
        first = schema.get("prefixItems", [])
        rest = schema.get("items")
        shown = [_show(item, first[i] if i < len(first) else rest, root) for i, item in enumerate(written)]
        return [*shown, *(item["default"] for item in first[len(written) :] if "default" in item)]

    if isinstance(written, dict):
        properties = as_mapping(schema.get("properties"))
        others = schema.get("additionalProperties")
        members = {key: _show(item, properties.get(key, others), root) for key, item in written.items()}
        if not written.keys() <= properties.keys():
            return members
        defaults = {key: each["default"] for key, each in properties.items() if "default" in as_mapping(each)}
        return members | {key: default for key, default in defaults.items() if key not in written}

    return written


def _choose(written: Any, schema: Any, root: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema of a value. For a union, this is the only member that may fit, or {} if none or several may."""
    members = _list_members(schema, root)
    if len(members) > 1:
        members = [member for member in members if _may_fit(written, member)]
    return members[0] if len(members) == 1 else {}


def _list_members(schema: Any, root: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """List the members of a union, and of unions inside it. A schema that is not a union is its only member."""
    resolved = resolve_reference(as_mapping(schema), root)
    for keyword in ("anyOf", "oneOf"):
        if keyword in resolved:
            return [inner for member in resolved[keyword] for inner in _list_members(member, root)]
    return [resolved]


def _may_fit(written: Any, schema: Mapping[str, Any]) -> bool:
    """Return whether a value has the type of a schema, its required keys, and its constants."""
    kind = _TYPES.get(type(written))
    if kind not in as_list(schema.get("type", kind)):
        return False
    if not isinstance(written, dict):
        return True

    given = [
        (written[key], as_mapping(each)) for key, each in as_mapping(schema.get("properties")).items() if key in written
    ]
    has_keys = written.keys() >= {*schema.get("required", ())}
    return has_keys and all(
        each.get("const", value) == value and value in each.get("enum", [value]) for value, each in given
    )


def to_shown_json(values: Any, indent: int | None = None) -> str:
    """Write plain data as JSON, with invisible characters, and those that look like a Latin letter, as escapes.

    A JSON parser reads the same values as without the escapes.
    """
    return escape_confusable(json.dumps(values, ensure_ascii=False, indent=indent), keep="\n")
