"""A question with buttons, as a widget of a notebook: may a call run?

The card above the buttons is HTML whose texts are escaped; the script sets no other HTML. It sends `ready` once the
buttons are displayed, and then the answer. Plain HTML then takes the place of the widget, since a widget is not
displayed in a notebook that was saved and opened again.
"""

from __future__ import annotations

import threading
from functools import cache
from importlib.util import find_spec
from typing import Any

SCRIPT = """
function render({model, el}) {
  const card = el.appendChild(document.createElement("div"));
  card.innerHTML = model.get("card");
  const form = el.appendChild(document.createElement("div"));
  form.className = "tk-question";
  const make = (tag, text) => {
    const element = form.appendChild(document.createElement(tag));
    element.textContent = text;
    return element;
  };
  const approve = make("button", "Approve"), reject = make("button", "Reject");
  const reason = make("input", "");
  reason.placeholder = "Reason for rejecting";
  reason.setAttribute("aria-label", reason.placeholder);
  const answer = approved => {
    approve.disabled = reject.disabled = reason.disabled = true;
    model.send({type: "answer", approved, reason: approved ? "" : reason.value});
  };
  approve.onclick = () => answer(true);
  reject.onclick = () => answer(false);
  reason.onkeydown = event => event.stopPropagation();  // a notebook has shortcuts of one letter
  model.send({type: "ready"});
}
export default {render};
"""
STYLE = """
.tk-question{display:flex;flex-wrap:wrap;gap:.5em;align-items:center;margin:.4em 0;color:inherit}
.tk-question button,.tk-question input{font:inherit;color:inherit;background:transparent;border:1px solid;
border-radius:3px;padding:.25em 1em}
.tk-question input{flex:1 1 12em;min-width:0;max-width:30em;padding:.25em .5em}
.tk-question button{cursor:pointer}.tk-question button:hover{background:rgba(128,128,128,.2)}
.tk-question ::placeholder{color:inherit;opacity:.75}
"""


class Question:
    """A question in HTML that is displayed by a widget, and its answer."""

    def __init__(self, card: str, widget: Any = None) -> None:
        self._changed = threading.Condition()
        self._is_ready = False
        self._answer: tuple[bool, str] | None = None
        self._view: Any = None
        self.widget: Any = _make_widget(card) if widget is None else widget
        self.widget.on_msg(self._receive)

    def display(self) -> None:
        """Display the question in the cell that is running."""
        from IPython.display import display  # only a notebook asks

        self._view = display(self.widget, display_id=True)  # type: ignore[no-untyped-call]

    def wait_until_ready(self, seconds: float) -> bool:
        """Wait until the buttons are displayed, and return whether they are."""
        with self._changed:
            return self._changed.wait_for(lambda: self._is_ready, seconds)

    def wait(self, seconds: float) -> tuple[bool, str] | None:
        """Wait for the answer: whether the call is approved, and the reason. Return None if there is no answer yet."""
        with self._changed:
            self._changed.wait_for(lambda: self._answer is not None, seconds)
            return self._answer

    def close(self, card: str) -> None:
        """Replace the question by HTML; "" removes it."""
        self._view.update({"text/html": card, "text/plain": ""}, raw=True)
        self.widget.close()

    def _receive(self, _: object, content: object, __: object) -> None:
        message = content if isinstance(content, dict) else {}
        with self._changed:
            self._is_ready = True
            if message.get("type") == "answer" and self._answer is None:
                reason = message.get("reason")
                self._answer = message.get("approved") is True, reason if isinstance(reason, str) else ""
            self._changed.notify_all()


def has_widgets() -> bool:
    """Return whether the packages for widgets are installed."""
    return find_spec("anywidget") is not None and find_spec("IPython") is not None


def _make_widget(card: str) -> Any:
    widget = _make_widget_class()(card=card)
    # ipykernel 7.4 handles the messages to a widget on the thread that made it, which may wait for one of them.
    vars(widget.comm or widget).pop("_reply_subshell_id", None)
    return widget


@cache
def _make_widget_class() -> Any:
    import anywidget  # optional
    import traitlets

    class QuestionWidget(anywidget.AnyWidget):
        _esm = SCRIPT
        _css = STYLE
        card = traitlets.Unicode("").tag(sync=True)

        def __repr__(self) -> str:
            return "<Question>"

    return QuestionWidget
