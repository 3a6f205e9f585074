"""Ending what a thread reads: no thread can be ended from outside, but the connection can that it waits for."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from toolkit._concurrency.cancellation import Cancellation

if TYPE_CHECKING:
    import httpx2


@contextmanager
def read_until(cancellation: Cancellation | None, response: httpx2.Response | None) -> Iterator[None]:
    """Break the connection of a response when it is called off; from then on nothing more of it comes.

    For a response that is read on a thread; one that is read in an event loop ends with its task.
    """
    if cancellation is None or response is None:
        yield
        return
    leave = cancellation.subscribe(partial(_break, response))
    try:
        yield
    finally:
        leave()


def _break(response: httpx2.Response) -> None:
    """Break a connection, unless others may use it: where it was given back, or HTTP/2 shares it."""
    if response.is_closed or response.extensions.get("http_version") not in (b"HTTP/1.1", b"HTTP/1.0"):
        return
    stream: Any = response.extensions.get("network_stream")
    connection = stream.get_extra_info("socket") if stream is not None else None
    if isinstance(connection, socket.socket):
        with suppress(OSError):
            # To close it would not wake who reads from it; a TLS socket's own shutdown would take its state from it.
            socket.socket.shutdown(connection, socket.SHUT_RDWR)
