"""Declare tools by JSON Schemas. The model writes the output of one tool, and a function executes the other.

Prints the schema of each tool, then the calls of one response with their results: by native tool calls, and from the
plain text of a model without tool calling. The model is scripted.
"""

from toolkit import Runner, Tool, Toolbox, schema
from toolkit.calls import calls_schema, parse_calls
from toolkit.testing import ScriptedModel, call

# A JSON Schema: `_tool` is the name, `_output` the schema of the output.
sentiment_analysis = Tool.from_schema(
    "sentimentAnalysis",
    {
        "type": "object",
        "description": "Analyzes text sentiment",
        "properties": {
            "_tool": {"type": "string", "const": "sentimentAnalysis"},
            "text": {"type": "string", "description": "Text to analyze"},
            "_output": {
                "type": "object",
                "properties": {"sentiment": {"type": "string"}, "confidence": {"type": "number"}},
            },
        },
        "required": ["text"],
    },
)
# The same by two schemas, with the helpers.
weather_check = Tool.from_models(
    "weatherCheck",
    schema.object(location=schema.string("City name")),
    schema.object(temperature=schema.number(), conditions=schema.string()),
    description="Tells the weather of a place",
)

box = Toolbox([sentiment_analysis, weather_check])


@box.bind("weatherCheck")
def weather(location: str) -> dict[str, float | str]:
    """Stand in for a weather service."""
    return {"temperature": 18.5, "conditions": f"sunny in {location}"}


def main() -> None:
    """Compose, call natively, call by text."""
    print("The schemas:")
    for shown in calls_schema(box)["properties"]["calls"]["items"]["anyOf"]:
        activity = shown["properties"]["_activity"]["const"]
        print(f"    _activity {activity!r:15} {', '.join(shown['properties'])}")

    print("One response, two calls:")
    text, output = "What a lovely day!", {"sentiment": "positive", "confidence": 0.97}
    both = [call("sentimentAnalysis", text=text, _output=output), call("weatherCheck", location="Paris")]
    result = Runner(box, model=ScriptedModel([both, "A lovely day, indeed."])).run("How is Paris?")
    for finished in result.calls:
        who = "the function" if box.bindings.activity_of(finished.name) else "the model"
        print(f"    {finished.name}, by {who}: {finished.result.text}")
    print("    Answer:", result.output)

    print("The same as text:")
    reply = """{"calls": [
        {"_tool": "weatherCheck", "_activity": "weatherCheck", "location": "Oslo"},
        {"_tool": "sentimentAnalysis", "_activity": "", "text": "Oh no", "_output": {"confidence": "high"}}]}"""
    calls = parse_calls(box, reply)
    for asked, got in zip(calls, box.call_many(calls), strict=True):
        print(f"    {asked.name}: {got.text}")


if __name__ == "__main__":
    main()
