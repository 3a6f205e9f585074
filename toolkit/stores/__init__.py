"""Storage in SQLite: documents with embeddings.

    from toolkit.stores import LocalEmbeddings, SQLiteKnowledge

Every name here is loaded when it is first used. The schedule's store is in `toolkit.builtin.schedule`, and the tools
that use documents are in `toolkit.builtin`.

Files, each importing only those below it:

    embeddings   sources of embeddings: a function, a server, a small model on this machine
    knowledge    documents with embeddings, in a file or in memory
    database     SQLite files: opening, migrations, transactions, forks, errors
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolkit._lazy import lazy_names

if TYPE_CHECKING:
    from toolkit.errors import StoreError as StoreError
    from toolkit.stores.embeddings import Embed as Embed
    from toolkit.stores.embeddings import LocalEmbeddings as LocalEmbeddings
    from toolkit.stores.embeddings import OpenAIEmbeddings as OpenAIEmbeddings
    from toolkit.stores.knowledge import Chunk as Chunk
    from toolkit.stores.knowledge import Document as Document
    from toolkit.stores.knowledge import Hit as Hit
    from toolkit.stores.knowledge import KnowledgeStore as KnowledgeStore
    from toolkit.stores.knowledge import SQLiteKnowledge as SQLiteKnowledge

# The public names by module. Type checkers read the imports above instead; a test compares the two.
_HOMES = {
    "toolkit.errors": ("StoreError",),
    "toolkit.stores.embeddings": ("Embed", "LocalEmbeddings", "OpenAIEmbeddings"),
    "toolkit.stores.knowledge": ("Chunk", "Document", "Hit", "KnowledgeStore", "SQLiteKnowledge"),
}

if not TYPE_CHECKING:  # with __getattr__, a type checker would accept any name
    __getattr__, __dir__, __all__ = lazy_names(globals(), _HOMES)
