"""Tools of other agent libraries: what holds without any of them."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from tests.adapters.adapted import BOX
from toolkit import DefinitionError, adapters

LIBRARIES = {
    "anthropic": "anthropic",
    "langchain": "langchain_core",
    "openai_agents": "agents",
    "pydantic_ai": "pydantic_ai",
    "smolagents": "smolagents",
}


@pytest.mark.parametrize("name", LIBRARIES)
@pytest.mark.parametrize("way", ["to", "from"])
def test_missing(name: str, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the library, the error names the package to install."""
    for module in [module for module in sys.modules if module.partition(".")[0] == LIBRARIES[name]]:
        monkeypatch.delitem(sys.modules, module)

    class Nowhere:
        @staticmethod
        def find_spec(module: str, *_: Any) -> None:
            if module == LIBRARIES[name]:
                raise ModuleNotFoundError(f"No module named {module!r}", name=module)

    monkeypatch.setattr(sys, "meta_path", [Nowhere, *sys.meta_path])
    function: Callable[..., Any] = getattr(adapters, f"{way}_{name}")

    with pytest.raises(ImportError, match='^This adapter needs another package: pip install "[a-z-]+".$'):
        function(BOX)


def test_nothing_is_loaded() -> None:
    """Importing the adapters imports no other library."""
    code = f"import sys, toolkit.adapters; print({{*sys.modules}} & {{*{[*LIBRARIES.values()]}}})"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "set()\n"


@pytest.mark.parametrize("name", LIBRARIES)
def test_wrong_tool(name: str) -> None:
    """What is no tool of the library is refused."""
    if importlib.util.find_spec(LIBRARIES[name]) is None:
        pytest.skip("see the dependency group `adapters`")

    with pytest.raises(DefinitionError, match="^5 is not a "):
        getattr(adapters, f"from_{name}")(5)
