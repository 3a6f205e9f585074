"""One call in a ledger: what was written of it before, and what is written now."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar, cast

from toolkit._concurrency.backend import Door
from toolkit._messages import ToolMessage, ToolResult, message_from_dict, message_to_dict
from toolkit.errors import Failed
from toolkit.ledger.entries import Entry, Ledger, Stage

logger = logging.getLogger("toolkit")

T = TypeVar("T")

UNKEPT = "This call was not run: its steps cannot be written down now."
STARTED = "This call was started before and may have taken effect; it was not run again."
CHANGED = (
    "A call of this id was started before with other arguments, or by another definition of its tool; "
    "this one was not run. Send it again if it is still needed."
)


@dataclass(frozen=True, kw_only=True)
class Record:
    """One call in a ledger.

    Attributes:
        digest: Which call it is, with the arguments that the model proposes.
        may_repeat: Whether it does no harm to carry it out twice.
    """

    ledger: Ledger
    run_id: str
    call_id: str
    digest: str
    may_repeat: bool
    door: Door

    async def recall(self) -> ToolResult | None:
        """Give what came of the call, where it was carried out before; None where it is to be carried out now.

        Raises:
            Failed: It has started and not finished, or it was another call, and may not be repeated; or the ledger
                cannot be read.
        """
        entries = await self._do("be read", lambda: self.ledger.read(self.run_id, self.call_id))
        stages = {entry.stage: entry for entry in entries}
        started, finished = stages.get("started"), stages.get("finished")
        if finished is not None and finished.digest == self.digest:
            return _result(finished.result)
        if started is None or self.may_repeat:
            return None
        raise Failed(STARTED if started.digest == self.digest else CHANGED)

    async def note(self, stage: Stage, digest: str = "") -> bool:
        """Write a stage; False where it was written before.

        Raises:
            Failed: It cannot be written.
        """
        return await self._write(stage, digest or self.digest)

    async def carry_out(self, work: Callable[[], Awaitable[ToolResult]]) -> ToolResult:
        """Do the work of the call, and write down that it starts and what came of it.

        Raises:
            Failed: Somebody else has started the call, and it may not be repeated; or its start cannot be written.
        """
        is_first = await self.note("started")
        if not is_first and (known := await self.recall()) is not None:
            return known
        result = await work()
        await self.finish(result)
        return result

    async def finish(self, result: ToolResult) -> None:
        """Write down what came of the call, a refusal included; where that cannot be kept, the log says so."""
        with suppress(Failed):
            await self._write("finished", self.digest, result)

    async def _write(self, stage: Stage, digest: str, result: ToolResult | None = None) -> bool:
        def write() -> bool:
            told = "" if result is None else _json(result)
            entry = Entry(run_id=self.run_id, call_id=self.call_id, stage=stage, digest=digest, result=told)
            return self.ledger.write(entry)

        return await self._do(f"keep {stage!r}", write)

    async def _do(self, what: str, work: Callable[[], T]) -> T:
        async def done() -> T:
            try:
                return work()
            except Exception as error:
                logger.exception("The ledger could not %s, for the call %s.", what, self.call_id)
                raise Failed(UNKEPT) from error

        return await self.door.call(done, is_async=False)


def _json(result: ToolResult) -> str:
    told = ToolMessage(call_id="", name="", text=result.text or "", images=result.images, files=result.files)
    return json.dumps({"told": message_to_dict(told), "error": result.error, "kind": result.kind})


def _result(text: str) -> ToolResult:
    kept = json.loads(text)
    told = cast("ToolMessage", message_from_dict(kept["told"]))
    value = told.text if kept["error"] is None else None
    return ToolResult(value, told.text, kept["error"], kept["kind"], images=told.images, files=told.files)
