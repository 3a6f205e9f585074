"""Search pages of this documentation by their meaning, and let a model answer from them (RAG).

Prints, for each question, the page of the best passage. The embeddings are real: all-MiniLM-L6-v2 on this machine,
downloaded once (24 MB). The model is scripted. Needs an extra: pip install "function-toolkit[embeddings]".
"""

from pathlib import Path

from toolkit import Runner
from toolkit.builtin import ingest_file
from toolkit.sources.retrievers import retriever_tool
from toolkit.stores import Hit, LocalEmbeddings, SQLiteKnowledge
from toolkit.testing import ScriptedModel, call

DOCS = Path(__file__).parent.parent / "docs"
QUESTIONS = {
    "Which package do I install to have a model without a key?": "embedded-model.md",
    "How do I find one of ten thousand tools?": "many-tools.md",
    "Can I take a task back up after my computer crashed?": "resume.md",
}

store, embed = SQLiteKnowledge(), LocalEmbeddings()
for page in QUESTIONS.values():
    ingest_file(DOCS / page, store, embed)


def search(question: str) -> list[Hit]:
    """Find the passages that are nearest in meaning."""
    return store.search(embed([question])[0], limit=3, model=embed.model)


tool = retriever_tool(search, "docs", min_score=0.2)
for question, page in QUESTIONS.items():
    model = ScriptedModel([call("retriever_docs", query=question), f"See {page}."])
    result = Runner([tool], model=model).run(question)
    sources = [line for line in result.calls[0].result.text.splitlines() if line.startswith("(source: ")]
    print(f"{question}\n    found first in {sources[0][9:].partition(',')[0]}, answered: {result.output}")
