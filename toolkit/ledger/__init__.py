"""What is known of each call, written down before and after: so that none has its effect twice.

A call is proposed, approved, started and finished. Each stage is written once, by whoever comes first; to have written
`started` is the right to carry the call out. After a crash, or when a state is taken up twice, the ledger tells what
was done: what has finished is not done again, and its result is told again; what has started and not finished may have
taken effect, and is done again only where that does no harm.
"""

from toolkit.ledger.entries import Entry, Ledger, MemoryLedger, Stage
from toolkit.ledger.files import SQLiteLedger
from toolkit.ledger.record import CHANGED, STARTED, UNKEPT, Record

__all__ = ["CHANGED", "STARTED", "UNKEPT", "Entry", "Ledger", "MemoryLedger", "Record", "SQLiteLedger", "Stage"]
