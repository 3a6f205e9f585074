"""Opening a connection: a name is looked up once, each address is checked, and one of these is connected to."""

from __future__ import annotations

import socket
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import CancelledError, Future, InvalidStateError
from concurrent.futures import TimeoutError as Unfinished
from contextlib import suppress
from functools import partial
from threading import BoundedSemaphore
from typing import TypeAlias

from toolkit._concurrency.cancellation import Cancellation
from toolkit._concurrency.threads import Outcome, Work, calling_off, over, time_left
from toolkit.builtin._guards.addresses import Address
from toolkit.builtin._guards.destinations import PORTS, Allowed, Destinations, Refused

# Gives the addresses of a host, as text.
Resolve: TypeAlias = Callable[[str, int], Sequence[str]]
# Connects to an address and a port, within seconds.
Connect: TypeAlias = Callable[[str, int, float | None], socket.socket]

# Connections that are being opened at the same time. No lookup can be ended: while it hangs, it takes a place.
AT_ONCE = 128
# Addresses of one host that are connected to, one after the other.
TRIED = 8


def resolve(host: str, port: int) -> list[str]:
    """Ask the system for the addresses of a host.

    Raises:
        OSError: It knows none.
    """
    # As bytes, which are sent as they are: of text, Python would make another name once more.
    found = socket.getaddrinfo(host.encode("ascii"), port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(place[0]) for *_, place in found))


def connect(address: str, port: int, seconds: float | None) -> socket.socket:
    """Connect to an address; nothing is looked up.

    Raises:
        OSError: There is no connection.
    """
    made = socket.create_connection((address, port), seconds)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


class Dialer:
    """Opens connections to public addresses, and to what is allowed besides.

    Args:
        allow: What is allowed although it is not public: networks, addresses, names of hosts, each with a port or at
            all of them.
        ports: The ports of public addresses.
        resolve: Looks names up.
        connect: Connects to an address that was checked; it gets no other.

    Raises:
        DefinitionError: `allow` or `ports` holds something else.
    """

    def __init__(
        self,
        allow: Iterable[Allowed] = (),
        ports: Collection[int] = PORTS,
        *,
        resolve: Resolve = resolve,
        connect: Connect = connect,
    ) -> None:
        self._destinations = Destinations(allow, ports)
        self._resolve, self._connect = resolve, connect
        self._places = BoundedSemaphore(AT_ONCE)

    def addresses(self, host: str, port: int) -> list[Address]:
        """Look a host up, and give its addresses if all of them may be connected to.

        Raises:
            Refused: One of them may not, or there is none.
            OSError: It cannot be looked up.
        """
        return self._destinations.checked(host, port, self._resolve(host, port))

    def dial(self, host: str, port: int, until: Cancellation) -> socket.socket:
        """Connect to a host, on a thread of its own: neither a lookup nor a connect can be ended.

        Raises:
            Refused: It may not be connected to, or too many connections are being opened.
            OSError: It has no address, or cannot be connected to.
            TimedOut: `until` has no time left.
            Cancelled: `until` was called off.
        """
        if not self._places.acquire(blocking=False):
            raise Refused(f"{AT_ONCE} connections are being opened already, and there may be no more; try again later")
        handed = Future[socket.socket]()
        Work(partial(self._open, host, port, until), partial(self._hand, handed)).start()
        with calling_off(until, handed.cancel), suppress(CancelledError, Unfinished):
            return handed.result(time_left(until))
        if not handed.cancel():
            handed.result().close()
        raise over(until)

    def _open(self, host: str, port: int, until: Cancellation) -> socket.socket:
        addresses = self.addresses(host, port)[:TRIED]
        for left in range(len(addresses), 1, -1):
            with suppress(OSError):
                return self._to(addresses[-left], port, until, left)
        return self._to(addresses[-1], port, until, 1)

    def _to(self, address: Address, port: int, until: Cancellation, left: int) -> socket.socket:
        """Connect to one address; those that are left get as much of the time."""
        if until:
            raise over(until)
        seconds = until.remaining
        return self._connect(str(address), port, None if seconds is None else seconds / left)

    def _hand(self, handed: Future[socket.socket], outcome: Outcome[socket.socket]) -> None:
        """Hand a connection over; where nobody waits any more, close it."""
        self._places.release()
        made, error = outcome
        try:
            if made is None:
                handed.set_exception(error)
            else:
                handed.set_result(made)
        except InvalidStateError:
            if made is not None:
                made.close()
