"""Start with a tool that the model executes, and bind a function later, without other changes.

Prints the result of the prototype, that of the function, and the difference in the tool's schema. The embedded model
answers if it is installed (pip install "function-toolkit[local]"), else a scripted one.
"""

import difflib
import json
from typing import Literal

from typing_extensions import TypedDict

from toolkit import NoModelError, Runner, Tool, Toolbox
from toolkit.calls import calls_schema
from toolkit.models import Model
from toolkit.models.local import embedded_model
from toolkit.testing import ScriptedModel, call


class Text(TypedDict):
    """Analyzes text sentiment."""

    text: str


class Sentiment(TypedDict):
    """What is found."""

    sentiment: Literal["positive", "negative", "neutral"]


QUESTION = "What is the sentiment of the text 'I love this library'?"
GOOD, BAD = {"love", "like", "great"}, {"hate", "terrible", "awful"}
box = Toolbox([Tool.from_models("sentimentAnalysis", Text, Sentiment)])


def model() -> Model:
    """Choose the embedded model where it is there, else one that says what it would."""
    try:
        return embedded_model()
    except NoModelError:
        said = call("sentimentAnalysis", text="I love this library", _output={"sentiment": "positive"})
        return ScriptedModel([said, "It is positive."] * 2)


def describe_schema() -> list[str]:
    """Return the lines of the schema that the model receives."""
    return json.dumps(calls_schema(box), indent=2).splitlines()


def counted(text: str) -> Sentiment:
    """Count words: simple, quick, and the same every time."""
    words = {*text.lower().split()}
    score = len(words & GOOD) - len(words & BAD)
    return {"sentiment": "positive" if score > 0 else "negative" if score < 0 else "neutral"}


def main() -> None:
    """Ask the prototype, bind a function, ask again, and compare."""
    runner = Runner(box, model=model())
    before = describe_schema()
    (made,) = runner.run(QUESTION).calls
    print("Prototype, by the model:", made.result.text)

    box.bind("sentimentAnalysis", counted)
    (made,) = runner.run(QUESTION).calls
    print("Bound, by the function: ", made.result.text)

    print("The change in the schema:")
    changes = difflib.unified_diff(before, describe_schema(), lineterm="", n=1)
    print(*(f"    {line}" for line in changes if not line.startswith(("---", "+++"))), sep="\n")


if __name__ == "__main__":
    main()
