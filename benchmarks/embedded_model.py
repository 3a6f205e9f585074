"""Accuracy of the embedded model: tool, arguments and sentence, for questions that it was not tuned on.

    python benchmarks/embedded_model.py

A call counts as right when tool and arguments are the expected ones, a sentence when it holds the tool's result and no
number that is neither in the question nor in the result. Each question is asked with its own tool alone, and with all.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, Literal

from toolkit import Runner, RunResult, Tool, tool
from toolkit.models.local import embedded_model


@tool
def multiply(a: float, b: float) -> float:
    """Multiply two numbers."""
    return a * b


@tool
def days_between(first: str, second: str) -> str:
    """Count the days between two dates.

    Args:
        first: ISO 8601.
        second: ISO 8601.
    """
    return "60 days"


@tool
def reverse_text(text: str) -> str:
    """Reverse a text."""
    return text[::-1]


@tool
def word_count(text: str) -> str:
    """Count the words in a text."""
    return f"{len(text.split())} words"


@tool
def current_time(city: str) -> str:
    """Get the current time in a city."""
    return "14:30"


@tool
def forecast(city: str, unit: Literal["celsius", "fahrenheit"]) -> str:
    """Get the weather forecast for a city."""
    return f"21 degrees {unit}"


@tool
def lookup_capital(country: str) -> str:
    """Look up the capital of a country."""
    return "Brasilia"


@tool
def send_email(to: str, subject: str, body: str) -> str:
    """Send an e-mail."""
    return "the e-mail was sent"


QUESTIONS: tuple[tuple[Tool[..., Any], str, dict[str, Any]], ...] = (
    (multiply, "Multiply 6 by 7.", {"a": 6, "b": 7}),
    (multiply, "What is 12 times 11?", {"a": 12, "b": 11}),
    (multiply, "How much is 2.5 times 4?", {"a": 2.5, "b": 4}),
    (multiply, "What is the product of 9 and 8?", {"a": 9, "b": 8}),
    (days_between, "Count the days between 2024-01-01 and 2024-03-01.", {
        "first": "2024-01-01", "second": "2024-03-01"}),
    (days_between, "How many days are between 2023-05-01 and 2023-06-30?", {
        "first": "2023-05-01", "second": "2023-06-30"}),
    (reverse_text, "Reverse the text hello.", {"text": "hello"}),
    (reverse_text, "What is 'garden' backwards?", {"text": "garden"}),
    (word_count, "Count the words in 'the cat sat down'.", {"text": "the cat sat down"}),
    (word_count, "How many words are in 'good morning'?", {"text": "good morning"}),
    (current_time, "What time is it in Tokyo?", {"city": "Tokyo"}),
    (current_time, "Tell me the current time in Lima.", {"city": "Lima"}),
    (forecast, "What is the forecast for Oslo in celsius?", {"city": "Oslo", "unit": "celsius"}),
    (forecast, "Will it be warm in Madrid? Use fahrenheit.", {"city": "Madrid", "unit": "fahrenheit"}),
    (lookup_capital, "Look up the capital of Brazil.", {"country": "Brazil"}),
    (lookup_capital, "What is the capital of Brazil?", {"country": "Brazil"}),
    (send_email, "Send an e-mail to ann@example.com about lunch, saying see you at noon.", {
        "to": "ann@example.com", "subject": "lunch", "body": "see you at noon"}),
    (send_email, "Write to bo@example.com: subject report, body it is done.", {
        "to": "bo@example.com", "subject": "report", "body": "it is done"}),
)  # fmt: skip
ALL = tuple(dict.fromkeys(asked for asked, _, _ in QUESTIONS))


def main() -> None:
    """Ask everything twice, and print the counts."""
    print(f"{'tools on offer':16} {'tool':>6} {'arguments':>10} {'sentence':>9}   of {len(QUESTIONS)} questions")
    for label, offered in (("its own", None), (f"all {len(ALL)}", ALL)):
        rows = [right(wanted, question, given, offered or (wanted,)) for wanted, question, given in QUESTIONS]
        counts = [sum(column) for column in zip(*rows, strict=True)]
        print(f"{label:16} {counts[0]:6} {counts[1]:10} {counts[2]:9}")


def right(
    wanted: Tool[..., Any], question: str, given: dict[str, Any], offered: Sequence[Tool[..., Any]]
) -> tuple[bool, bool, bool]:
    """Check tool, arguments and sentence."""
    result = Runner(offered, model=embedded_model()).run(question)
    chosen = [call.name for call in result.calls] == [wanted.name]
    return chosen, chosen and json.loads(result.calls[0].arguments) == given, chosen and says(result, question)


def says(result: RunResult, question: str) -> bool:
    """Return True for a sentence that has the result, and no other number."""
    found = result.calls[0].result.text or ""
    strange = set(_numbers(result.output)) - set(_numbers(f"{question} {found}"))
    return found.lower() in result.output.lower() and not strange


def _numbers(text: str) -> list[str]:
    return re.findall(r"\d+(?:\.\d+)?", text)


if __name__ == "__main__":
    main()
