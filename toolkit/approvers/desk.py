"""A desk where calls wait to be decided on from elsewhere: another thread, a task, a web page."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from toolkit._concurrency.cancellation import Cancellation
from toolkit._execution.approval import ApprovalRequest, Verdict
from toolkit._messages import PendingApproval
from toolkit.errors import ApprovalError

if TYPE_CHECKING:
    import asyncio


class Desk:
    """An approver: what it is asked lies open, in order, until somebody answers; for any number of runs at once.

    The run's events tell of each open call (`ApprovalNeeded`). A call that is given up, by a time-out or a
    cancellation, is taken off the desk; the clock says when, however busy the event loop of the run is.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[str, _Question] = {}

    @property
    def open(self) -> tuple[PendingApproval, ...]:
        """The calls that wait now, the oldest first."""
        with self._lock:
            return tuple(question.pending for question in self._open.values() if not question.until)

    def answer(self, call_id: str, verdict: Verdict) -> None:
        """Decide on a call; from any thread or task.

        Raises:
            ApprovalError: No such call waits: it was never asked about, was given up, or is already resolved.
        """
        with self._lock:
            question = self._open.pop(call_id, None)
        if question is None or not question.settle(verdict):
            raise ApprovalError(f"The call {call_id!r} does not wait for a decision, or is already resolved.")

    async def __call__(self, request: ApprovalRequest) -> Verdict:
        """Put a call on the desk, and wait."""
        question = _Question(request.pending(), request.context.cancellation)
        with self._lock:
            if self._open.setdefault(request.call.id, question) is not question:
                raise ApprovalError(f"A call {request.call.id!r} lies on this desk already.")
        try:
            request.announce()
            return await question.verdict
        finally:
            with self._lock:
                if self._open.get(request.call.id) is question:
                    del self._open[request.call.id]


class _Question:
    """One call on the desk, with the promise of an answer; `until` says when it is given up."""

    def __init__(self, pending: PendingApproval, until: Cancellation) -> None:
        import asyncio

        self.pending = pending
        self.until = until
        self._loop = asyncio.get_running_loop()
        self.verdict: asyncio.Future[Verdict] = self._loop.create_future()

    def settle(self, verdict: Verdict) -> bool:
        """Give the answer; False where nobody waits for it any more."""
        if self.until or self.verdict.done():
            return False
        try:
            self._loop.call_soon_threadsafe(self._settle, verdict)
        except RuntimeError:  # the loop is closed
            return False
        return True

    def _settle(self, verdict: Verdict) -> None:
        if not self.verdict.done():
            self.verdict.set_result(verdict)
