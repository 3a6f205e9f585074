"""The events of a run as those of AG-UI 1.0, a protocol between agents and user interfaces.

    the run                     AG-UI
    RunStarted                  RUN_STARTED
    a turn with its calls       STEP_STARTED ... STEP_FINISHED
    ReasoningDelta              REASONING_START, REASONING_MESSAGE_START, _CONTENT, _END, REASONING_END
    TextDelta                   TEXT_MESSAGE_START, _CONTENT, _END, from the assistant
    MessageAdded                the same, from the user
    the calls of a turn         TOOL_CALL_START, TOOL_CALL_ARGS where there are some, TOOL_CALL_END
    ToolCallFinished            TOOL_CALL_RESULT
    RunFinished                 RUN_FINISHED, whose outcome is an interrupt where calls wait for approval
    an exception, or no end     RUN_ERROR
    all others                  CUSTOM, with the JSON form of the event

A call is told when its turn is over: only then is it known to be whole, and has its id. A call that waited for approval
in an earlier run was told then; now there is its result. Specification: https://docs.ag-ui.com/spec/1.0
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Iterable
from typing import Any, overload

from toolkit.agui.answers import decisions
from toolkit.agui.drawing import AsyncToldStream, ToldStream
from toolkit.agui.telling import Telling, Told
from toolkit.events import Event

__all__ = ["AsyncToldStream", "Told", "ToldStream", "decisions", "events"]


@overload
def events(stream: AsyncIterable[Event], *, thread_id: str = "", run_id: str = "") -> AsyncToldStream: ...
@overload
def events(stream: Iterable[Event], *, thread_id: str = "", run_id: str = "") -> ToldStream: ...
def events(stream: Any, *, thread_id: str = "", run_id: str = "") -> Any:
    """Tell the events of a run as AG-UI does, as JSON-able dicts; of an async stream, as an async iterator.

    A run that fails ends with RUN_ERROR and raises nothing: the exception is in the log. Leaving early ends the run.

    Args:
        stream: What `Runner.stream` or `Runner.astream` gave.
        thread_id: The conversation, as the client names it; the run's id by default.
        run_id: The run, as the client names it; the run's own id by default.

    Example:
        >>> from toolkit import Runner
        >>> from toolkit.testing import ScriptedModel
        >>> stream = Runner(model=ScriptedModel(["Hello."])).stream("Hi!")
        >>> [event["delta"] for event in events(stream) if event["type"] == "TEXT_MESSAGE_CONTENT"]
        ['Hello.']
    """
    telling = Telling(thread_id=thread_id, run_id=run_id)
    return AsyncToldStream(stream, telling) if isinstance(stream, AsyncIterable) else ToldStream(stream, telling)
