"""Use one tool in three environments: production sends mail, development uses a mock, and a prototype the model.

Prints the result of the same call in each, or only in the environment of the variable APP_ENV. In the prototype no
function executes the tool, so the model writes the result. The model is scripted, and the outbox is a list.
"""

import os

from toolkit import Runner, Tool, Toolbox, schema
from toolkit.testing import ModelReply, ScriptedModel, call

ACTIVITIES = {"production": "smtp", "development": "mock", "prototype": ""}  # "" leaves it to the model
outbox: list[str] = []

send_email = Tool.from_models(
    "sendEmail",
    schema.object(recipient=schema.string("Address"), subject=schema.string("What it is about")),
    schema.object(sent=schema.boolean()),
    description="Sends an e-mail",
)
box = Toolbox([send_email])
box.bindings.choose("sendEmail", lambda: ACTIVITIES[os.environ["APP_ENV"]])  # called whenever the tools are composed


@box.bind("smtp")
def post(recipient: str, subject: str) -> dict[str, bool]:
    """Send the mail."""
    outbox.append(f"{recipient}: {subject}")
    return {"sent": True}


@box.bind("mock")
def pretend(**mail: str) -> dict[str, bool]:
    """Return a plausible result, and send nothing."""
    return {"sent": "@" in mail["recipient"]}


def script() -> list[ModelReply]:
    """Make the replies of the model, which fills in `_output` if no function executes the tool."""
    guess = {} if box.bindings.activity_of("sendEmail") else {"_output": {"sent": False}}
    return [call("sendEmail", recipient="ann@example.com", subject="Lunch?", **guess), "That was all."]


def main() -> None:
    """Run the same request in each environment."""
    chosen = os.environ.get("APP_ENV")
    for environment in [chosen] if chosen else ACTIVITIES:
        os.environ["APP_ENV"] = environment
        outbox.clear()
        (finished,) = Runner(box, model=ScriptedModel(script())).run("Ask Ann to lunch.").calls
        carrier = box.bindings.activity_of("sendEmail") or "the model"
        print(f"{environment:12} by {carrier:10} {finished.result.text:15} outbox {outbox}")


if __name__ == "__main__":
    main()
