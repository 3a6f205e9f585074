"""Retry tools that sometimes fail, or take too long.

Prints each attempt of two tools, and the result that the model receives. Only tools that read or are idempotent are
retried. The model is scripted.
"""

from toolkit import Runner, ToolContext, ToolError, tool
from toolkit.events import ToolCallFinished, ToolCallRetried
from toolkit.testing import ScriptedModel, call


@tool(effect="read", retries=2, retry_on=(ConnectionError,))
def exchange_rate(currency: str, context: ToolContext) -> float:
    """Look up an exchange rate."""
    if context.attempt == 0:
        raise ConnectionError("the line is busy")  # retried after a pause
    if currency != "EUR":
        raise ToolError(f"No rate of {currency} is known.")  # not retried; the model reads it
    return 0.9


@tool(idempotent=True, retries=1, timeout=0.1)
async def save(amount: float, context: ToolContext) -> str:
    """Save an amount."""
    import asyncio

    await asyncio.sleep(0 if context.attempt else 60)  # hangs the first time
    return f"{amount:g} saved under {context.idempotency_key[:8]}"  # the same key for every attempt of a call


model = ScriptedModel(
    [
        [call("exchange_rate", currency="EUR")],
        [call("save", amount=90)],
        [call("exchange_rate", currency="XXX")],  # the line is busy again, and the second attempt ends with a ToolError
        "100 USD are 90 EUR; they are saved.",
    ]
)

for event in Runner([exchange_rate, save], model=model).stream("Change 100 USD and save them."):
    if isinstance(event, ToolCallRetried):
        print(f"  {event.call.name}: {event.error!r}, again in {event.seconds:.1f} s")
    elif isinstance(event, ToolCallFinished):
        print(f"{event.name}({event.arguments}) -> {event.result.text}")
