"""Validator of JSON text, built from a JSON Schema (draft 2020-12).

The schema is translated into one of pydantic-core's, so that a document is read in one pass, like the arguments of a
function. Checks that pydantic-core lacks are functions in Python. A second validator, the probe, tests whether a value
matches `not`, `if`, `contains` or a part of `oneOf`, and changes nothing.

- Values are coerced like those of a function's parameters: "5" and 5.0 to the integer 5, "true" to true; true is not a
  number. Strings are not changed, integers stay integers, and NaN and infinity are refused.
- An absent property that is not required gets its default.
- Keys are in the order of `properties`; other keys follow in the document's order.
- `format` and unknown keywords are ignored.
- If nested alternatives could take exponential time, the steps for a document are limited.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pydantic_core import SchemaError, SchemaValidator

from toolkit._schema.validation.checks import NESTED, Probe, Workload, count_step
from toolkit._schema.validation.keywords import KeywordWriter, Node, no_info, with_info, write_any_json
from toolkit._schema.validation.pointers import SchemaDocument
from toolkit.errors import DefinitionError, InvalidArguments

MIN_STEPS = 20_000  # steps for any document, besides those for its length
STEPS_PER_CHARACTER = 4


def build_validator(schema: Mapping[str, Any]) -> Callable[[str], Any]:
    """Build a function that turns JSON text into values, or raises pydantic-core's `ValidationError`.

    It raises `InvalidArguments` for a document that takes too many steps.

    Args:
        schema: Draft 2020-12, at most 1 MiB and 10,000 parts, each at most 100 steps of a JSON pointer deep. It is
            copied.

    Raises:
        DefinitionError: The schema is invalid or not supported; the message names the place.
    """
    document = SchemaDocument.load(schema)
    probe = Probe()
    work = Workload()
    reader = KeywordWriter(document, probe, work, fills=True)
    core = reader.write(document.root, "")
    reader.complete()
    prober = KeywordWriter(document, probe, work, fills=False)
    _write_probed(prober, reader.probed)
    if is_counted := not work.is_small():
        work.refuse_excess()
    if prober.probed:
        probe.validator = _build_validator(_write_probe(prober), prober, is_counted=is_counted)
    validator = _build_validator(core, reader, is_counted=is_counted)
    return _limit_steps(validator) if is_counted else validator.validate_json


def _write_probed(prober: KeywordWriter, places: set[str]) -> None:
    """Write the parts that the probe tests, and the parts that they refer to or test themselves."""
    while places - prober.definitions.keys() or None in prober.definitions.values():
        for place in places:
            prober.write_reference(place)
        prober.probed.update(places)
        prober.complete()
        places = set(prober.probed)


def _write_probe(prober: KeywordWriter) -> Node:
    """Write the core schema of the probe, which checks the value of a pair of place and value by the part there."""
    choices = {
        place: {
            "type": "function-before",
            "function": no_info(lambda pair: pair[1]),
            "schema": prober.write_reference(place),
        }
        for place in prober.probed
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
            return validator.validate_json(text, context=[MIN_STEPS + STEPS_PER_CHARACTER * len(text)])
        except RecursionError as error:
            raise InvalidArguments(NESTED) from error

    return validate
