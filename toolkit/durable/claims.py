"""Claim check: large payloads are stored elsewhere, and the server's history has their keys."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Protocol, runtime_checkable

from temporalio.api.common.v1 import Payload
from temporalio.converter import PayloadCodec

from toolkit._guards.options import check_type, check_whole
from toolkit._options import find_cutoff
from toolkit.errors import StoreError

# Bytes of the largest payload that is sent to the server.
MIN_BYTES = 256 * 1024
ENCODING = b"toolkit/claim"


@runtime_checkable
class PayloadStore(Protocol):
    """A store of payloads that all workers and clients reach; its methods are called in threads."""

    def save(self, data: bytes, /) -> str:
        """Store data, and return its key. The same data may be stored again."""
        ...

    def load(self, key: str, /) -> bytes:
        """Return the data of a key.

        Raises:
            Exception: There is no such data, or it cannot be read. The step is then tried again.
        """
        ...


class ClaimCheck(PayloadCodec):
    """Stores payloads above `min_bytes` elsewhere; the server gets their keys.

    Pass it to the data converter of clients and workers:
    `Client.connect(address, data_converter=DataConverter(payload_codec=ClaimCheck("/shared/payloads")))`.

    Args:
        store: A directory that all of them reach, or an object with `save(data) -> key` and `load(key) -> data`.
        codec: Applied first, such as one that encrypts: the store then has the encrypted payloads.
        min_bytes: Bytes of the largest payload that is sent to the server itself.

    Raises:
        DefinitionError: `min_bytes` is not a positive whole number, or another argument is of a wrong type.
    """

    def __init__(
        self,
        store: str | os.PathLike[str] | PayloadStore,
        *,
        codec: PayloadCodec | None = None,
        min_bytes: int = MIN_BYTES,
    ) -> None:
        given = PayloadDirectory(store) if isinstance(store, (str, os.PathLike)) else store
        self._store = check_type("store", given, PayloadStore)
        self._codec = check_type("codec", codec, PayloadCodec, type(None))
        self._min_bytes = check_whole("min_bytes", min_bytes)

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Apply the codec, and replace large payloads by their keys."""
        coded = await self._codec.encode(payloads) if self._codec else payloads
        return [await self._save(each) if each.ByteSize() > self._min_bytes else each for each in coded]

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Replace keys by their payloads, and undo the codec."""
        coded = [await self._load(each) if each.metadata.get("encoding") == ENCODING else each for each in payloads]
        return await self._codec.decode(coded) if self._codec else coded

    async def _save(self, payload: Payload) -> Payload:
        key = await asyncio.to_thread(self._store.save, payload.SerializeToString())
        return Payload(metadata={"encoding": ENCODING}, data=key.encode())

    async def _load(self, payload: Payload) -> Payload:
        return Payload.FromString(await asyncio.to_thread(self._store.load, payload.data.decode()))


class PayloadDirectory:
    """Payloads as files of one directory, named by the SHA-256 of their content.

    Only the user who writes the files may read them.

    Args:
        path: The directory; created for its owner alone if it does not exist.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)

    def save(self, data: bytes, /) -> str:
        """Write a file, and return its key; if there is one of the same data, only its time is updated.

        Raises:
            StoreError: It could not be written.
        """
        key = sha256(data).hexdigest()
        try:
            file = self._path / key[:2] / key
            if file.exists():
                os.utime(file)
                return key
            self._path.mkdir(0o700, parents=True, exist_ok=True)
            file.parent.mkdir(0o700, exist_ok=True)
            with NamedTemporaryFile(dir=file.parent, delete=False) as draft:  # only its owner may read it
                draft.write(data)
            Path(draft.name).replace(file)  # whole or not at all
        except OSError as error:
            raise StoreError(f"The payload could not be stored: {error}") from error
        return key

    def load(self, key: str, /) -> bytes:
        """Read a file.

        Raises:
            StoreError: There is no such file, it cannot be read, or it has other content.
        """
        if not (key.isalnum() and key.isascii()):
            raise StoreError(f"{key!r:.100} is not the key of a payload.")
        try:
            data = (self._path / key[:2] / key).read_bytes()
        except OSError as error:
            raise StoreError(f"The payload could not be read: {error}") from error
        if sha256(data).hexdigest() != key:
            raise StoreError(f"The file of the payload {key} has other content.")
        return data

    def prune(self, seconds: float) -> int:
        """Delete the payloads that were last saved more than `seconds` ago, and return their number.

        The time must be longer than runs take, and than the server keeps their histories.

        Raises:
            ValueError: `seconds` is not a number, 0 or more.
            StoreError: They could not be deleted.
        """
        cutoff = find_cutoff(seconds)
        try:
            old = [file for file in self._path.glob("*/*") if file.stat().st_mtime < cutoff]
            for file in old:
                file.unlink(missing_ok=True)
        except OSError as error:
            raise StoreError(f"The payloads could not be deleted: {error}") from error
        return len(old)
