"""Defaults of options for the API reference: an extension of griffe, after `unpack_typeddict`, which writes `...`."""

from __future__ import annotations

import inspect
import re
from functools import reduce
from importlib import import_module
from typing import Any

from griffe import DocstringSectionParameters, Extension, Function

import toolkit


class Defaults(Extension):
    """Take the defaults from the signature that Python shows; those of `**options` from that of `@tool`."""

    def on_function(self, *, func: Function, **_: Any) -> None:
        """Replace the default `...` of each parameter."""
        unknown = [each for each in func.parameters if each.default == "..."]
        if not unknown or (func.parent and "typed-dict" in func.parent.labels):
            return
        names = func.path.removeprefix(f"{func.module.path}.").split(".")
        function: Any = reduce(getattr, names, import_module(func.module.path))
        known = {**inspect.signature(toolkit.tool).parameters, **inspect.signature(function).parameters}
        for parameter in unknown:
            default = repr(known[parameter.name].default) if parameter.name in known else "..."
            parameter.default = re.sub(r"<class '(\w+)'>|mappingproxy\((.*)\)", r"\1\2", default)
        for section in func.docstring.parsed if func.docstring else ():
            if isinstance(section, DocstringSectionParameters):
                for described in section.value:
                    if described.value == "...":
                        described.value = func.parameters[described.name].default
