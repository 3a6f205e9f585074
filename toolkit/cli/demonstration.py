"""A demonstration: a model that calls three functions."""

from __future__ import annotations

from typing import Literal

from toolkit import Runner, Toolbox, tool
from toolkit._runner.options import RunnerOptions
from toolkit.cli.options import Model, Server, fail
from toolkit.display import show
from toolkit.models.default import EMBEDDED, ModelChoice
from toolkit.models.local import NAME

Currency = Literal["USD", "EUR", "GBP"]

# Made up, so that the demonstration needs no network.
RATES = {"USD": 1.0, "EUR": 0.9, "GBP": 0.8}
WEATHER = {"Paris": "18 degrees and sunny", "Tokyo": "25 degrees and cloudy"}

NOTE = """, the embedded model, a small one that runs on this machine.
Set OPENAI_API_KEY or OPENAI_BASE_URL to let a larger model call the same functions."""

QUESTIONS = ("What is the sum of 17 and 25?", "Convert 100 USD to EUR.", "What is the weather in Paris?")


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
def convert(amount: float, source: Currency, target: Currency) -> str:
    """Convert an amount of money to another currency."""
    return f"{amount / RATES[source] * RATES[target]:g} {target}"


@tool
def weather(city: str) -> str:
    """Get the current weather in a city."""
    return WEATHER.get(city, f"There is no weather for {city} in this demonstration.")


def demo(base_url: Server = None, model: Model = None) -> None:
    """Watch a language model call three small functions."""
    options: RunnerOptions = {"base_url": base_url} if base_url else {}
    try:
        if ModelChoice(name=model, base_url=base_url).is_fallback:
            model = EMBEDDED  # its name selects the note at the end
        runner = Runner(Toolbox([add, convert, weather]), model=model, **options)
    except ValueError as error:  # such as a base_url without http://
        fail(error)

    print("Three Python functions, and a language model that may call them:")
    print("  add(a, b)   convert(amount, source, target)   weather(city)\n", flush=True)
    name = runner.model.name  # this fetches the embedded model before the first question
    for question in QUESTIONS:
        show(runner.stream(question), question)
        print()
    print(f"Answered by {name}{NOTE if name == NAME else '.'}")
