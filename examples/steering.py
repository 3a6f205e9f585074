"""Steer a run: send a message while the run is active, and a follow-up that the model reads after its answer.

Prints the conversation. The running search ends, the next search is skipped, the model reads the message, and the
follow-up waits for the answer. The model is scripted.
"""

from toolkit import Runner, tool
from toolkit.events import ToolCallFinished
from toolkit.models import ToolMessage, UserMessage
from toolkit.testing import ScriptedModel, call


@tool
def search(city: str) -> str:
    """Search for hotels in a city."""
    return f"3 hotels in {city}"


model = ScriptedModel(
    [
        [call("search", city="Rome"), call("search", city="Milan")],
        [call("search", city="Paris")],
        "There are 3 hotels in Paris.",
        "The first one is booked.",
    ]
)
runner = Runner([search], model=model, order="sequential")

with runner.stream("Find me a hotel in Italy.") as run:
    for event in run:
        if isinstance(event, ToolCallFinished) and "Rome" in event.arguments:
            run.steer("No, in Paris!")  # read before the model's next turn; callable from any thread or task
            run.follow_up("Book the first one.")  # read once the model has answered

for message in run.result.messages:
    who = "user" if isinstance(message, UserMessage) else "tool" if isinstance(message, ToolMessage) else "model"
    calls = ", ".join(f"{each.name}({each.arguments})" for each in getattr(message, "calls", ()))
    print(f"{who:5}", message.text or calls)
