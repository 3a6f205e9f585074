"""Chat in the browser with Vercel's AI SDK: Starlette sends the stream, and a plain HTML page reads it.

Prints the parts that two requests of a browser receive: a call that waits for approval, and the rest of the run after
the approval. `python examples/web_vercel.py --serve` serves the page at http://127.0.0.1:8000 instead. You can use
`useChat` of the AI SDK, version 6 or later, in place of the page. Needs starlette, uvicorn and httpx2: extra a2a. The
model is scripted.
"""

import asyncio
import json
import sys
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
from toolkit.serve import vercel
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
sessions: dict[str, Session] = {}  # by id of the chat; SQLiteSession keeps them in a file


async def chat(request: Request) -> Response:
    """Answer the last message of a chat, or resume the run whose calls were decided on."""
    # A page of another site can send other types only.
    if not request.headers.get("content-type", "").startswith("application/json"):
        return PlainTextResponse("Send JSON.", status_code=415)
    try:
        body = await request.json()
        session = sessions.setdefault(str(body["id"]), Session())
        decisions = vercel.parse_decisions(body["messages"])
        # The id of an answer is that of its run.
        prompt = saved.load(body["messages"][-1]["id"]) if decisions else vercel.parse_prompt(body["messages"])
        stream = runner.astream(prompt, session=session, decisions=decisions)
    except (ValueError, LookupError, TypeError, AttributeError, ToolkitError) as error:  # from a wrong body
        return PlainTextResponse(str(error), status_code=400)
    return StreamingResponse(vercel.encode_sse(stream), headers=vercel.HEADERS)


PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Chat</title>
<style>
:root{color-scheme:light dark;background:Canvas;color:CanvasText;font-family:system-ui,sans-serif;line-height:1.5}
body{max-width:44em;margin:auto;padding:1em}
article{margin:1em 0;overflow-wrap:anywhere}p{margin:.3em 0;white-space:pre-wrap}
article.user{background:#80808026;border-radius:10px;padding:.2em 1em;margin-left:20%}
.call{border-left:3px solid #808080;padding-left:.8em}
form{display:flex;gap:.5em}input{flex:1;min-width:0}
input,button{font:inherit;padding:.4em 1em;border:1px solid #808080;border-radius:8px}
button{background:#2563eb;border-color:#2563eb;color:#fff}button:disabled{opacity:.5}
article button{margin:.3em .5em .3em 0}button+button{background:none;border-color:#808080;color:inherit}
</style>
<main><h1>Chat</h1><div id="log" role="log"></div>
<form><input name="text" aria-label="Message" value="Send Emma a mail." required>
<button>Send</button></form></main>
<script type="module">
const id = crypto.randomUUID(), messages = [], log = document.querySelector("#log");

async function send() {  // what useChat does
  const headers = {"content-type": "application/json"}, body = JSON.stringify({id, messages});
  const response = await fetch("/chat", {method: "POST", headers, body});
  if (!response.ok) return show("error", [{type: "text", text: await response.text()}]);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "", message = messages.at(-1).role === "assistant" ? messages.at(-1) : null;
  for (let chunk; !(chunk = await reader.read()).done;) {
    const events = (rest + chunk.value).split("\\n\\n");
    rest = events.pop();
    for (const line of events.filter(line => line !== "data: [DONE]")) {
      const part = JSON.parse(line.slice(6));
      if (!message) messages.push(message = {id: part.messageId, role: "assistant", parts: []});
      read(message.parts, part);
      render();
    }
  }
}

function read(parts, part) {
  const called = parts.find(each => each.toolCallId && each.toolCallId === part.toolCallId);
  if (part.type === "text-start") parts.push({type: "text", text: "", id: part.id});
  if (part.type === "text-delta") parts.findLast(each => each.id === part.id).text += part.delta;
  if (part.type === "tool-input-available" && !called)
    parts.push({type: "tool-" + part.toolName, toolCallId: part.toolCallId, input: part.input});
  if (part.type === "tool-approval-request")
    Object.assign(called, {state: "approval-requested", approval: {id: part.approvalId}});
  if (part.type === "tool-output-available") Object.assign(called, {state: "output-available", output: part.output});
  if (part.type === "tool-output-error") Object.assign(called, {state: "output-error", output: part.errorText});
  if (part.type === "tool-output-denied")
    Object.assign(called, {state: "output-denied", output: "Tool execution was rejected by the user."});
  if (part.type === "error") parts.push({type: "text", text: part.errorText});
}

function render() {
  log.replaceChildren(...messages.map(message => show(message.role, message.parts)));
  const waits = each => each.state === "approval-requested";
  document.querySelector("form button").disabled = messages.some(message => message.parts.some(waits));
}

function show(role, parts) {
  const article = document.createElement("article");
  article.className = role;
  for (const part of parts) {
    const line = article.appendChild(document.createElement("p"));
    const call = () => `${part.type.slice(5)} ${JSON.stringify(part.input)}`;
    if (part.type !== "text") line.className = "call";
    line.textContent = part.type === "text" ? part.text : `${call()} ${JSON.stringify(part.output) ?? ""}`;
    if (part.state === "approval-requested")
      for (const [label, approved] of [["Approve", true], ["Reject", false]]) {
        const button = article.appendChild(document.createElement("button"));
        button.textContent = label;
        button.onclick = () => {
          Object.assign(part, {state: "approval-responded", approval: {...part.approval, approved}});
          render();
          if (!parts.some(each => each.state === "approval-requested")) send();
        };
      }
  }
  return log.appendChild(article);
}

document.forms[0].onsubmit = event => {
  event.preventDefault();
  messages.push({id: crypto.randomUUID(), role: "user", parts: [{type: "text", text: event.target.text.value}]});
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
    messages: list[Any] = [{"id": "1", "role": "user", "parts": [{"type": "text", "text": "Send Emma a mail."}]}]
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://localhost") as client:
        first = await client.post("/chat", json={"id": "chat", "messages": messages})
        parts = read(first.text)
        approval = next(part for part in parts if part["type"] == "tool-approval-request")
        answered = {"id": approval["approvalId"], "approved": True}
        part = {"type": "tool-send_mail", "state": "approval-responded", "approval": answered}
        messages.append({"id": parts[0]["messageId"], "role": "assistant", "parts": [part]})
        print("\nApproved:")
        read((await client.post("/chat", json={"id": "chat", "messages": messages})).text)


def read(body: str) -> list[dict[str, Any]]:
    """Print the parts of a response, and return them."""
    parts = [json.loads(line[6:]) for line in body.split("\n\n") if line not in ("", "data: [DONE]")]
    for part in parts:
        detail = part.get("delta") or part.get("input") or part.get("output") or ""
        if not part["type"].startswith("data-"):  # the library's other events
            print(f"    {part['type']} {detail}".rstrip())
    return parts


if __name__ == "__main__":
    if "--serve" in sys.argv:
        uvicorn.run(app, port=8000)
    else:
        asyncio.run(main())
