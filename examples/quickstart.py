"""Ask three questions. A language model answers them with three plain Python functions.

Prints each question, the call that the model makes, its result and the answer. Needs no key: without OPENAI_API_KEY or
OPENAI_BASE_URL the embedded model answers (pip install "function-toolkit[local]").
"""

from typing import Literal

from toolkit import Runner, Toolbox, tool
from toolkit.display import show

RATES = {"USD": 1.0, "EUR": 0.9, "GBP": 0.8}  # made up


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
def convert(amount: float, source: Literal["USD", "EUR", "GBP"], target: Literal["USD", "EUR", "GBP"]) -> str:
    """Convert an amount of money to another currency."""
    return f"{amount / RATES[source] * RATES[target]:g} {target}"


@tool
def weather(city: str) -> str:
    """Get the current weather in a city."""
    return {"Paris": "18 degrees and sunny", "Tokyo": "25 degrees and cloudy"}.get(city, "unknown")


runner = Runner(Toolbox([add, convert, weather]))

for question in ("What is the sum of 17 and 25?", "Convert 100 USD to EUR.", "What is the weather in Paris?"):
    result = show(runner.stream(question), question)
    print()

print(f"Answered by {result.model}: {result.usage.requests} requests in the last run, {len(result.messages)} messages.")
