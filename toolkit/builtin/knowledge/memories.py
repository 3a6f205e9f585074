"""`save_memory`: short facts about somebody, and how they are called to mind."""

from __future__ import annotations

import time
import unicodedata
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from toolkit._concurrency.threads import ended_by
from toolkit._context import ToolContext
from toolkit._guards.options import number, plain_function, whole
from toolkit._tools.decorator import tool
from toolkit._tools.tool import Tool
from toolkit.builtin.knowledge.ingest import check, digest
from toolkit.errors import Failed
from toolkit.stores.embeddings import Embed, embedded, model_of
from toolkit.stores.knowledge import Chunk, Document, Hit, KnowledgeStore

Kind: TypeAlias = Literal["fact", "preference", "instruction", "note", "decision"]

MEMORIES = "memories"
# How long a memory of a kind lasts, in seconds; the others last until they are cleared.
LIFETIMES: Mapping[str, float] = MappingProxyType({"note": 48 * 3600.0, "decision": 7 * 86400.0})
MAX_TEXT = 4000  # characters


class Memories:
    """Short texts about one owner, in a store.

    Args:
        store: Where they are kept: `store.owned_by(user)` for one of several users.
        embed: What makes the embeddings.
        most: How many are called to mind at most.
        min_score: How near one has to be to be called to mind, as a cosine.
        clock: Gives the time, in seconds since 1970, UTC.

    Raises:
        DefinitionError: The store is none, `embed` cannot be called, or is asynchronous, or another value makes no
            sense.
    """

    def __init__(
        self,
        store: KnowledgeStore,
        embed: Embed,
        *,
        most: int = 10,
        min_score: float = 0.35,
        clock: Callable[[], float] = time.time,
    ) -> None:
        check(store, embed)
        self._store, self._embed, self._clock = store, embed, plain_function("clock", clock)
        self._most, self._min_score = whole("most", most), number("min_score", min_score, least=-1)

    def save(self, text: str, kind: Kind = "fact") -> None:
        """Keep a memory, in place of one that lasts as long and says the same but for case, spaces and a full stop.

        By their embeddings, memories that differ in a number or by a "not" are as near as any that mean the same.

        Raises:
            Failed: It cannot be embedded or kept.
        """
        embedding = embedded(self._embed, [text])[0]
        lifetime = LIFETIMES.get(kind)
        memory = Document(
            id=digest(MEMORIES, str(lifetime), _plain(text)),
            title=kind,
            source="memory",
            content=text,
            collection=MEMORIES,
            expires_at=None if lifetime is None else self._clock() + lifetime,
        )
        self._store.add(memory, [Chunk(content=text, embedding=embedding)], model=model_of(self._embed))

    def load(self, query: str) -> list[Hit]:
        """Give the memories that are near a query, the nearest first; `title` is a memory's kind.

        Raises:
            Failed: The query cannot be embedded, or the store cannot be read.
        """
        asked, model = embedded(self._embed, [query])[0], model_of(self._embed)
        nearest = self._store.search(asked, collection=MEMORIES, limit=self._most, model=model)
        return [hit for hit in nearest if hit.score >= self._min_score]

    def clear(self) -> int:
        """Forget all; give how many there were."""
        return self._store.delete(*(memory.id for memory in self._store.documents(MEMORIES)))


def _plain(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split()).rstrip(".")


def memory_tool(save: Callable[[str, Kind], object]) -> Tool[..., Any]:
    """Make `save_memory`.

    Args:
        save: Keeps a text of a kind: `Memories(store, embed).save`, or a function of your own.

    Raises:
        DefinitionError: It cannot be called, or is asynchronous.
    """
    plain_function("save", save)

    @tool(title="Save Memory", effect="write")
    def save_memory(text: str, context: ToolContext, kind: Kind = "fact") -> str:
        """Keep a short fact about the user or the work, so that it is known in later conversations.

        Args:
            text: One fact, as a sentence that makes sense by itself.
            context: Says whether the call was called off.
            kind: What it is. A note is forgotten after 48 hours, a decision after 7 days.
        """
        if not text.strip():
            raise Failed('save_memory: "text" must be non-empty')
        if len(text) > MAX_TEXT:
            raise Failed(f'save_memory: "text" must be at most {MAX_TEXT} characters; it has {len(text)}')
        with ended_by(context.cancellation):
            save(text, kind)
        return "memory saved"

    return save_memory
