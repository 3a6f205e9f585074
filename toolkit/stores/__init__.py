"""What is kept in files: documents with embeddings, and the one way of opening a SQLite file.

    from toolkit.stores import LocalEmbeddings, SQLiteKnowledge

Every name here is loaded when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolkit._lazy import lazy_names

if TYPE_CHECKING:
    from toolkit.errors import StoreError as StoreError
    from toolkit.stores.database import Database as Database
    from toolkit.stores.database import Layout as Layout
    from toolkit.stores.embeddings import Embed as Embed
    from toolkit.stores.embeddings import LocalEmbeddings as LocalEmbeddings
    from toolkit.stores.embeddings import OpenAIEmbeddings as OpenAIEmbeddings
    from toolkit.stores.knowledge import Chunk as Chunk
    from toolkit.stores.knowledge import Document as Document
    from toolkit.stores.knowledge import Hit as Hit
    from toolkit.stores.knowledge import KnowledgeStore as KnowledgeStore
    from toolkit.stores.knowledge import MemoryKnowledge as MemoryKnowledge
    from toolkit.stores.knowledge import SQLiteKnowledge as SQLiteKnowledge

# Where each public name lives. The block above says the same to type checkers; a test holds the two together.
_HOMES = {
    "toolkit.errors": ("StoreError",),
    "toolkit.stores.database": (
        "Database",
        "Layout",
    ),
    "toolkit.stores.embeddings": (
        "Embed",
        "LocalEmbeddings",
        "OpenAIEmbeddings",
    ),
    "toolkit.stores.knowledge": (
        "Chunk",
        "Document",
        "Hit",
        "KnowledgeStore",
        "MemoryKnowledge",
        "SQLiteKnowledge",
    ),
}

if not TYPE_CHECKING:  # for which each name that is not declared above is a mistake
    __getattr__, __dir__, __all__ = lazy_names(globals(), _HOMES)
