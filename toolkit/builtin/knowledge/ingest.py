"""Texts, files and web pages -> documents in a store, all or nothing."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

from toolkit._guards.paths import Root
from toolkit.builtin.files.names import shown
from toolkit.builtin.files.texts import decoded
from toolkit.builtin.files.workspace import Workspace
from toolkit.builtin.knowledge.chunking import chunked
from toolkit.errors import DefinitionError, Failed
from toolkit.stores.embeddings import Embed, embedded, model_of, refuse_unusable
from toolkit.stores.knowledge import Chunk, Document, KnowledgeStore

# Characters of one document; about 1,200 chunks.
MAX_CONTENT = 2_000_000
MESSAGES = "messages"


def ingest_text(
    content: str,
    store: KnowledgeStore,
    embed: Embed,
    *,
    title: str = "",
    source: str = "message",
) -> int:
    """Keep a text; the same text is kept once. Give the number of its chunks.

    Args:
        content: The text.
        store: Where it is kept.
        embed: What makes the embeddings.
        title: A name for people.
        source: Where it came from.

    Raises:
        Failed: It is empty or longer than 2,000,000 characters, or cannot be embedded or kept. Nothing is kept then.
        Cancelled: The call that this is done for was called off.
    """
    document = Document(id=digest(content), title=title, source=source, content=content)
    return _keep(document, store, embed)


def ingest_file(path: str | os.PathLike[str], store: KnowledgeStore, embed: Embed) -> str:
    """Keep the text of a file, in place of what was kept of it before. Say so.

    A search tells its name, and not the directories that it lies in.

    Raises:
        Failed: As for `ingest_text`; or the file is no text, or cannot be read.
    """
    real = Path(path).resolve()
    try:
        with Workspace(Root(real.parent)).opened(real.name) as (file, _):
            text = decoded(file.read(4 * MAX_CONTENT + 1))[0]  # a character has four bytes at most
    except OSError as error:
        raise Failed(f"cannot ingest {shown(real.name)}: {error.strerror or error}") from error
    document = Document(id=digest("file", str(real)), title=real.name, source=real.name, content=text)
    return f'File "{shown(real.name)}" ingested: {_keep(document, store, embed)} chunk(s) indexed.'


def ingest_url(url: str, store: KnowledgeStore, embed: Embed, fetch: Callable[[str], str] | None = None) -> str:
    """Keep the text of a web page, in place of what was kept of it before. Say so.

    Args:
        url: Its address.
        store: Where it is kept.
        embed: What makes the embeddings.
        fetch: Gives the text at an address; by default what `http_fetch` reads, from public addresses only.

    Raises:
        Failed: As for `ingest_text`; or the page cannot be fetched.
        TypeError: `fetch` gave no text.
    """
    document = Document(id=digest("url", url), title=url, source=url, content=(fetch or _fetched)(url))
    return f"URL ingested: {_keep(document, store, embed)} chunk(s) indexed from {url}"


def ingest_message(role: str, content: str, store: KnowledgeStore, embed: Embed) -> int:
    """Keep a message of a conversation for later ones to find; give the number of its chunks.

    Raises:
        Failed: As for `ingest_text`.
    """
    identity = digest(MESSAGES, role, content)
    message = Document(id=identity, title=role, source="conversation", content=content, collection=MESSAGES)
    return _keep(message, store, embed)


def _fetched(url: str) -> str:
    from toolkit.builtin import http  # it needs an extra

    return http.fetch(url).text


def _keep(document: Document, store: KnowledgeStore, embed: Embed) -> int:
    if not isinstance(document.content, str):
        raise TypeError(f"{document.title}: {type(document.content).__name__} came, and no str.")
    if len(document.content) > MAX_CONTENT:
        raise Failed(f"{len(document.content)} characters are too many: {MAX_CONTENT} at most are kept at a time")
    texts = chunked(document.content)
    if not texts:
        raise Failed("there is no text to keep")
    chunks = [Chunk(content=text, embedding=embedding) for text, embedding in zip(texts, embedded(embed, texts))]
    store.add(document, chunks, model=model_of(embed))
    return len(chunks)


def check(store: object, embed: object) -> None:
    """Refuse what cannot work, before it is used.

    Raises:
        DefinitionError: The store is none, or `embed` cannot be called, or is asynchronous.
    """
    if not isinstance(store, KnowledgeStore):
        raise DefinitionError(f"store={store!r} is no store: give a SQLiteKnowledge, or what has its methods.")
    refuse_unusable(embed)


def digest(*parts: str) -> str:
    """Tell a document from others; what stands in which part makes a difference."""
    told = "".join(f"{len(part)}:{part}" for part in parts)
    return hashlib.sha256(told.encode("utf-8", "surrogatepass")).hexdigest()[:32]
