"""Where embeddings come from: any function of texts; here one that asks a server."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

from toolkit._concurrency.backend import is_async
from toolkit._concurrency.threads import refuse_late
from toolkit.errors import DefinitionError, Failed, FatalError, Halt, ToolError
from toolkit.models.default import sync_client

if TYPE_CHECKING:
    import openai

logger = logging.getLogger("toolkit")

# Texts that are sent at once.
BATCH = 64
UNREADABLE = "embedding error: the server's answer holds no embeddings; see whether base_url is that of its API"


class Embed(Protocol):
    """A function that gives an embedding for each text, in order: numbers whose direction is its meaning.

    It may have an attribute `model`, which tells its embeddings from those of others; without one it is "".
    """

    def __call__(self, texts: Sequence[str], /) -> Sequence[Sequence[float]]:
        """Give an embedding for each text."""
        ...


def model_of(embed: Embed) -> str:
    """Tell what makes the embeddings of a function; "" where it does not say."""
    return str(getattr(embed, "model", ""))


def refuse_unusable(embed: object) -> None:
    """Refuse what cannot embed, before it is asked.

    Raises:
        DefinitionError: It is no function, or an asynchronous one.
    """
    if not callable(embed):
        raise DefinitionError(f"embed={embed!r} is no function of a list of texts.")
    if is_async(embed):
        raise DefinitionError(f"embed={embed!r} is asynchronous: give a function that returns the embeddings.")


def embedded(embed: Embed, texts: Sequence[str]) -> list[Sequence[float]]:
    """Have texts embedded, 64 at a time.

    Raises:
        Failed: The function raised, or gave no list of embeddings, or one of another length. What it raised stands in
            the log alone: it may tell a key or a path.
        Cancelled: The call that this is done for was called off.
        ToolError, FatalError, Halt: The function raised it.
    """
    return [embedding for batch in _batches(texts) for embedding in _embedded(embed, batch)]


def _embedded(embed: Embed, texts: Sequence[str]) -> Sequence[Sequence[float]]:
    refuse_late()
    try:
        found = list(embed(texts))
    except (ToolError, FatalError, Halt):
        raise
    except Exception as error:
        logger.warning("Texts could not be embedded.", exc_info=True)
        raise Failed(f"embedding error: {_named(error)}") from error
    if not found:
        raise Failed("no embedding returned")
    if len(found) != len(texts):
        raise Failed(f"embedding error: {len(found)} embeddings came for {len(texts)} texts")
    return found


def _named(error: Exception) -> str:
    """Name an error, with the HTTP status that a server's refusal has."""
    status = getattr(error, "status_code", None)
    return f"{type(error).__name__} (HTTP {status})" if type(status) is int else type(error).__name__


def _batches(texts: Sequence[str]) -> Iterator[list[str]]:
    left = iter(texts)
    while batch := list(islice(left, BATCH)):
        yield batch


class OpenAIEmbeddings:
    """Embeddings by a server that speaks OpenAI's API.

    Args:
        model: Its name there, such as "text-embedding-3-small".
        client: Who asks; by default one for the address and key in OPENAI_BASE_URL and OPENAI_API_KEY.
        dimensions: How many numbers are asked for, of a model that lets one choose.
        timeout: How long to wait for the server in each try, in seconds; the client says how many tries there are.

    Attributes:
        model: What tells its embeddings from those of others.

    Raises:
        DefinitionError: The client is asynchronous.
    """

    def __init__(
        self,
        model: str,
        client: openai.OpenAI | None = None,
        *,
        dimensions: int | None = None,
        timeout: float = 60.0,
    ) -> None:
        if client is not None and is_async(client.embeddings.create):
            raise DefinitionError(f"client={type(client).__name__}: it is asynchronous; give an openai.OpenAI.")
        self.model = model
        self._client, self._dimensions, self._timeout = client, dimensions, timeout

    def __call__(self, texts: Sequence[str], /) -> list[list[float]]:
        """Give an embedding for each text, by one request.

        Raises:
            openai.OpenAIError: The server could not be reached, or refused; or there is no key.
            Failed: Its answer does not have one embedding for each text.
        """
        import openai  # it takes longer to load than the rest

        chosen = openai.omit if self._dimensions is None else self._dimensions
        self._client = self._client or _client()
        ask = partial(self._client.embeddings.create, encoding_format="float", timeout=self._timeout)
        try:
            answer = ask(model=self.model, input=list(texts), dimensions=chosen)
            found = {item.index: item.embedding for item in answer.data}
        except (AttributeError, TypeError, ValueError) as error:  # of the client, too
            raise Failed(UNREADABLE) from error
        if sorted(found) != list(range(len(texts))) or len(answer.data) != len(texts):
            raise Failed(f"embedding error: the server gave no embedding for each of {len(texts)} texts")
        return [found[index] for index in range(len(texts))]


def _client() -> openai.OpenAI:
    base_url, key = os.environ.get("OPENAI_BASE_URL"), os.environ.get("OPENAI_API_KEY")
    without: Any = "none" if base_url else None  # servers of one's own seldom ask for a key
    return sync_client(base_url, key or without)
