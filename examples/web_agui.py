"""Chat in the browser with AG-UI: Starlette sends the events, and a plain HTML page reads them.

Prints the events that two requests of a browser receive: a call that waits for approval, and the rest of the run after
the approval. `python examples/web_agui.py --serve` serves the page at http://127.0.0.1:8000 instead. You can use
CopilotKit or another client of AG-UI in place of the page. Needs starlette, uvicorn and httpx2: extra a2a. The model is
scripted.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from toolkit import Runner, Session, SQLiteRuns, ToolkitError, tool
from toolkit.approvers import ask_when, defer
from toolkit.models import ModelRequest
from toolkit.serve import agui
from toolkit.testing import ModelReply, ScriptedModel, call


@tool(effect="read")
def get_weather(city: str) -> dict[str, Any]:
    """Current weather for a city."""
    return {"city": city, "degrees": 21}


@tool(effect="write")
def send_mail(to: str, text: str) -> str:
    """Send a mail."""
    return f"sent to {to}: {text}"


def answer(request: ModelRequest) -> ModelReply:
    """Answer as the model: send a mail if the user asks for one, else get the weather; then say the result."""
    last = request.messages[-1].text
    if len(request.messages) > 1 and request.messages[-2].text == "":  # the results of its calls
        return f"The tool says: {last}"
    return [call("send_mail", to="emma", text="Hello!")] if "mail" in last else [call("get_weather", city="Jakarta")]


saved = SQLiteRuns(":memory:")  # a file keeps them when the process ends
approve = ask_when(defer, effects=["write"])
runner = Runner([get_weather, send_mail], model=ScriptedModel(answer), approve=approve, checkpoint=saved)
sessions: dict[str, Session] = {}  # by id of the thread; SQLiteSession keeps them in a file
runs: dict[str, str] = {}  # the last run of each thread, since a client that answers does not name it


async def chat(request: Request) -> Response:
    """Answer the last message of a thread, or resume the run whose calls were decided on."""
    # A page of another site can send other types only.
    if not request.headers.get("content-type", "").startswith("application/json"):
        return PlainTextResponse("Send JSON.", status_code=415)
    try:
        body = await request.json()
        thread, decisions = str(body["threadId"]), agui.parse_decisions(body.get("resume") or ())
        prompt = saved.load(runs[thread]) if decisions else body["messages"][-1]["content"]
        stream = runner.astream(prompt, session=sessions.setdefault(thread, Session()), decisions=decisions)
    except (ValueError, LookupError, TypeError, AttributeError, ToolkitError) as error:  # from a wrong body
        return PlainTextResponse(str(error), status_code=400)
    events = agui.encode_events(stream, thread_id=thread)
    return StreamingResponse(write(events), media_type="text/event-stream")


async def write(events: AsyncIterator[dict[str, Any]]) -> AsyncIterator[str]:
    """Write events as server-sent ones; note the run of the thread."""
    async for event in events:
        if event["type"] == "RUN_STARTED":
            runs[event["threadId"]] = event["runId"]
        yield f"data: {json.dumps(event)}\n\n"


PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Chat</title>
<style>
:root{color-scheme:light dark;background:Canvas;color:CanvasText;font-family:system-ui,sans-serif;line-height:1.5}
body{max-width:44em;margin:auto;padding:1em}
article{margin:1em 0;overflow-wrap:anywhere}p{margin:.3em 0;white-space:pre-wrap}
article.user{background:#80808026;border-radius:10px;padding:.2em 1em;margin-left:20%}
article.tool{border-left:3px solid #808080;padding-left:.8em}
form{display:flex;gap:.5em}input{flex:1;min-width:0}
input,button{font:inherit;padding:.4em 1em;border:1px solid #808080;border-radius:8px}
button{background:#2563eb;border-color:#2563eb;color:#fff}button:disabled{opacity:.5}
article button{margin:.3em .5em .3em 0}button+button{background:none;border-color:#808080;color:inherit}
</style>
<main><h1>Chat</h1><div id="log" role="log"></div>
<form><input name="text" aria-label="Message" value="Send Emma a mail." required>
<button>Send</button></form></main>
<script type="module">
const threadId = crypto.randomUUID(), messages = [], log = document.querySelector("#log");

async function send(resume) {
  const headers = {"content-type": "application/json"};
  const body = JSON.stringify({threadId, runId: crypto.randomUUID(), messages, resume});
  const response = await fetch("/chat", {method: "POST", headers, body});
  if (!response.ok) return show({role: "error", content: await response.text()});
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (let chunk; !(chunk = await reader.read()).done;) {
    const events = (rest + chunk.value).split("\\n\\n");
    rest = events.pop();
    for (const line of events) read(JSON.parse(line.slice(6)));
    render();
  }
}

function read(event) {
  const called = messages.find(each => each.toolCallId && each.toolCallId === event.toolCallId);
  if (event.type === "TEXT_MESSAGE_START") messages.push({id: event.messageId, role: event.role, content: ""});
  if (event.type === "TEXT_MESSAGE_CONTENT") messages.find(each => each.id === event.messageId).content += event.delta;
  if (event.type === "TOOL_CALL_START")
    messages.push({role: "tool", toolCallId: event.toolCallId, content: event.toolCallName + " "});
  if (event.type === "TOOL_CALL_ARGS") called.content += event.delta;
  if (event.type === "TOOL_CALL_RESULT") called.content += " " + event.content;
  if (event.type === "RUN_ERROR") messages.push({role: "error", content: event.message});
  if (event.type === "RUN_FINISHED" && event.outcome.type === "interrupt")
    for (const {id} of event.outcome.interrupts) messages.find(each => each.toolCallId === id).waits = true;
}

function render() {
  log.replaceChildren(...messages.map(show));
  document.querySelector("form button").disabled = messages.some(each => each.waits);
}

function show(message) {
  const article = document.createElement("article");
  article.className = message.role;
  article.appendChild(document.createElement("p")).textContent = message.content;
  if (message.waits)
    for (const [label, approved] of [["Approve", true], ["Reject", false]]) {
      const button = article.appendChild(document.createElement("button"));
      button.textContent = label;
      button.onclick = () => {
        Object.assign(message, {waits: false, answer: {approved}});
        render();
        if (!messages.some(each => each.waits)) send(takeAnswers());
      };
    }
  return log.appendChild(article);
}

function takeAnswers() {
  const answered = messages.filter(each => each.answer);
  const resume = answered.map(each => ({interruptId: each.toolCallId, status: "resolved", payload: each.answer}));
  answered.forEach(each => delete each.answer);
  return resume;
}

document.forms[0].onsubmit = event => {
  event.preventDefault();
  messages.push({id: crypto.randomUUID(), role: "user", content: event.target.text.value});
  event.target.reset();
  render();
  send();
};
</script></html>"""


async def show_page(_: Request) -> Response:
    """Send the page."""
    return HTMLResponse(PAGE)


app = Starlette(
    routes=[Route("/", show_page), Route("/chat", chat, methods=["POST"])],
    # Else another site could let its own name resolve to this machine.
    middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=["127.0.0.1", "localhost"])],
)


async def main() -> None:
    """Do what the page does when a user asks for a mail and approves it."""
    body: dict[str, Any] = {"threadId": "thread", "messages": [{"role": "user", "content": "Send Emma a mail."}]}
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://localhost") as client:
        events = read((await client.post("/chat", json=body)).text)
        waiting = events[-1]["outcome"]["interrupts"]
        payload = {"approved": True}
        resume = [{"interruptId": each["id"], "status": "resolved", "payload": payload} for each in waiting]
        print("\nApproved:")
        read((await client.post("/chat", json={**body, "resume": resume})).text)


def read(body: str) -> list[dict[str, Any]]:
    """Print the events of a response, and return them."""
    events = [json.loads(line[6:]) for line in body.split("\n\n") if line]
    for event in events:
        if event["type"] != "CUSTOM":  # the library's other events
            print(f"    {event['type']} {event.get('delta') or event.get('content') or ''}".rstrip())
    return events


if __name__ == "__main__":
    if "--serve" in sys.argv:
        uvicorn.run(app, port=8000)
    else:
        asyncio.run(main())
