"""What a model is told of a tool, and its developer of what a model is told."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pydantic_core import PydanticSerializationError, to_json

from toolkit._messages import OUTPUT_PATH, ToolSpec
from toolkit.errors import DefinitionError
from toolkit.invocable import Invocable
from toolkit.scopes import Scope
from toolkit.settings import ToolSettings
from toolkit.shared import widened

if TYPE_CHECKING:
    from toolkit._dialects.explain import Explanation


class Described(Invocable):
    """What can be invoked, and is shown to a model."""

    title: str | None
    text: str | None
    strict: bool | None
    settings: ToolSettings
    about: Mapping[str, Any]
    asked: tuple[str, ...]
    scope: Scope | None

    @cached_property
    def description(self) -> str:
        """What the model is told that the tool does."""
        return self.handler.description if self.text is None else self.text

    @property
    def parameters(self) -> dict[str, Any]:
        """JSON Schema of the arguments: draft 2020-12, of type object. Read it, do not change it.

        Raises:
            DefinitionError: A parameter cannot be described to a model.
        """
        return self.handler.built.schema

    @property
    def _shown_parameters(self) -> dict[str, Any]:
        own = widened(self.parameters) if OUTPUT_PATH in self.about else self.parameters
        if not self.about:
            return own
        required = [*(key for key in self.asked if key in self.about), *own.get("required", ())]
        known = {"required": required} if required else {}
        return {**own, "properties": {**self.about, **own["properties"]}, **known}

    @property
    def output_schema(self) -> dict[str, Any] | None:
        """JSON Schema of what the function returns; None where its annotation says nothing about it."""
        return self.handler.returns.schema

    @cached_property
    def spec(self) -> ToolSpec:
        """The tool as a model may see it.

        Raises:
            DefinitionError: It cannot be described to a model.
        """
        try:
            to_json([self.description, self.parameters])
        except PydanticSerializationError as error:
            what = "its description or schema holds what no JSON can carry"
            raise DefinitionError(f"{self.origin}: {what}: {error}") from None
        return ToolSpec(
            name=self.name,
            description=self.description,
            parameters=self._shown_parameters,
            activity=self.handler.activity,
            about=self.about,
            module=self.scope.module if self.scope else "",
            output=self.output_schema,
            title=self.title,
            strict=self.strict,
            namespace=self.settings.namespace,
            defer_loading=self.settings.defer_loading,
            forms={} if self.about else self.handler.built.forms,
        )

    @property
    def origin(self) -> str:
        """Where the tool comes from, for messages to its developer."""
        return self.handler.origin

    def explain(self, dialect: str = "chat", *, strict: bool = True) -> Explanation:
        """Tell how a provider is shown this tool: what is rewritten, and whether and why not it is strict.

        Raises:
            ValueError: There is no such dialect.
            DefinitionError: The tool cannot be described to a model, or to this provider.
        """
        from toolkit._dialects import dialect_named  # all of them take longer to load than the rest of a tool
        from toolkit._dialects.explain import explained

        return explained(self.spec, dialect_named(dialect, strict=strict))
