"""Validator of JSON text, built from a JSON Schema (draft 2020-12).

The schema is translated into one of pydantic-core's, so that a document is read in one pass, as the arguments of a
function are. What pydantic-core lacks is a function in Python. Whether a value matches `not`, `if`, `contains` or one
of `oneOf` is tested by a second validator, the probe, which changes nothing.

- Coercion is that of a function's parameters: "5" is valid as an integer, 3.0 as 3, "true" as true; true is no number.
  Text stays as it is, an integer an integer, and there is no NaN and no infinity.
- An absent property that is not required gets its default.
- Keys come in the order of `properties`, others after them in the document's order.
- `format` and unknown keywords are ignored.
- Where nested alternatives could take exponential time, the steps for a document are limited.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pydantic_core import SchemaError, SchemaValidator

from toolkit._schema.validation.checks import NESTED, Probe, StepBudget, Workload, count_step
from toolkit._schema.validation.keywords import KeywordWriter, Node, no_info, with_info, write_any_json
from toolkit._schema.validation.pointers import SchemaDocument
from toolkit.errors import DefinitionError, InvalidArguments


def build_validator(schema: Mapping[str, Any]) -> Callable[[str], Any]:
    """Build a function that turns JSON text into values, or raises pydantic-core's `ValidationError`.

    It raises `InvalidArguments` for a document that takes too many steps.

    Args:
        schema: Draft 2020-12, at most 1 MiB and 10,000 parts, each at most 100 steps of a JSON pointer deep. It is
            copied.

    Raises:
        DefinitionError: The schema is invalid or not supported; the message names the place.
    """
    document, probe, work = SchemaDocument.load(schema), Probe(), Workload()
    reader = KeywordWriter(document, probe, work, fills=True)
    core = reader.write(document.root, "")
    reader.complete()
    asked = KeywordWriter(document, probe, work, fills=False)
    _write_probed(asked, reader.probed)
    if is_counted := not work.is_small():
        work.refuse_excess()
    if asked.probed:
        probe.validators.append(_build_validator(_write_choice(asked), asked, is_counted=is_counted))
    validator = _build_validator(core, reader, is_counted=is_counted)
    return _limit_steps(validator) if is_counted else validator.validate_json


def _write_probed(asked: KeywordWriter, places: set[str]) -> None:
    """Write the parts that the probe tests, and those that these need."""
    while places - asked.definitions.keys() or None in asked.definitions.values():
        for place in places:
            asked.write_reference(place)
        asked.probed.update(places)
        asked.complete()
        places = set(asked.probed)


def _write_choice(asked: KeywordWriter) -> Node:
    """Write the probe: it takes a pair of a place and a value, and checks the value by the schema in that place."""
    choices = {
        place: {
            "type": "function-before",
            "function": no_info(lambda pair: pair[1]),
            "schema": asked.write_reference(place),
        }
        for place in asked.probed
    }
    return {"type": "tagged-union", "discriminator": lambda pair: pair[0], "choices": choices}


def _build_validator(core: Node, writer: KeywordWriter, *, is_counted: bool) -> SchemaValidator:
    cores = {pointer: each for pointer, each in writer.definitions.items() if each is not None}
    definitions = [_write_definition(pointer, each, is_counted=is_counted) for pointer, each in cores.items()]
    whole: Any = {"type": "definitions", "schema": core, "definitions": [write_any_json(), *definitions]}
    try:
        return SchemaValidator(whole)
    except SchemaError as error:
        raise DefinitionError(
            f"JSON Schema: pydantic-core does not take it ({error}). Write it in plainer terms."
        ) from error


def _write_definition(pointer: str, core: Node, *, is_counted: bool) -> Node:
    if is_counted:
        return {"type": "function-before", "function": with_info(count_step), "schema": core, "ref": pointer}
    return (
        {"type": "chain", "steps": [core], "ref": pointer}
        if core["type"] == "definition-ref"
        else {**core, "ref": pointer}
    )


def _limit_steps(validator: SchemaValidator) -> Callable[[str], Any]:
    def validate(text: str) -> Any:
        try:
            return validator.validate_json(text, context=StepBudget.of(text))
        except RecursionError as error:
            raise InvalidArguments(NESTED) from error

    return validate
