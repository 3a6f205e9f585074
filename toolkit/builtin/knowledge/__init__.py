"""Texts that are kept beyond a conversation: the tools that find and keep them, and how files and pages get there."""

from toolkit.builtin.knowledge.chunking import chunked
from toolkit.builtin.knowledge.ingest import ingest_file, ingest_message, ingest_text, ingest_url
from toolkit.builtin.knowledge.memories import Kind, Memories, memory_tool
from toolkit.builtin.knowledge.tools import knowledge_tools

__all__ = [
    "Kind",
    "Memories",
    "chunked",
    "ingest_file",
    "ingest_message",
    "ingest_text",
    "ingest_url",
    "knowledge_tools",
    "memory_tool",
]
