"""Get a typed answer instead of text, stream it while the model writes, and let the model correct an invalid one.

Prints the report each time it grows, then the report of a model that corrected its first answer. The model is scripted.
"""

from pydantic import BaseModel, Field

from toolkit import Runner
from toolkit.events import OutputDelta, TurnFinished
from toolkit.testing import ScriptedModel


class Finding(BaseModel):
    """Something that was found."""

    text: str
    severity: int = Field(ge=1, le=5)


class Report(BaseModel):
    """The answer that the model has to return."""

    title: str
    findings: list[Finding] = []  # with a default, partial reports start before the first finding


GOOD = """{"title": "Bridge inspection", "findings": [
    {"text": "Rust on the railing", "severity": 2},
    {"text": "Crack in pillar 3", "severity": 4}]}"""
WRONG = """{"title": "Bridge inspection", "findings": [{"text": "Crack in pillar 3", "severity": 9}]}"""

print("As it arrives:")
with Runner(model=ScriptedModel([GOOD])).stream("Report on the bridge.", output_type=Report) as stream:
    for event in stream:
        if isinstance(event, OutputDelta):
            print("   ", event.value)

report = stream.result.output
print("Whole:", report.title, "with", len(report.findings), "findings")

print("\nWrong at first:")
model = ScriptedModel([WRONG, GOOD])
with Runner(model=model).stream("Report on the bridge.", output_type=Report) as stream:
    answers = sum(isinstance(event, TurnFinished) for event in stream)
refusal = model.requests[1].messages[-1]
print("    Sent back to the model:", getattr(refusal, "text", "").partition(" Answer again")[0])
last = stream.result.output.findings[-1]
print(f"    Answer {answers} was right: {last.text}, severity {last.severity}.")
