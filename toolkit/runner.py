"""The loop: schemas to the model, its calls to the tools, the results back, until there is an answer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from typing_extensions import Unpack, override

from toolkit._concurrency.cancellation import Cancellation
from toolkit._toolbox import Addable, Toolbox
from toolkit.assembly import Assembly
from toolkit.limits import Limits
from toolkit.models import Model
from toolkit.options import Ask, RunnerOptions
from toolkit.runs.controls import Controls
from toolkit.runs.inbox import Inbox
from toolkit.runs.run import Run
from toolkit.verbs import Verbs


class Runner(Controls, Verbs):
    """Lets a model work with a toolbox. One runner may have many runs, one after the other or at the same time.

    `steer` and `follow_up` mean the run that is under way, where that is one; `clear` and `cancel` mean all of them.

    Args:
        toolbox: Tools, or anything that a Toolbox takes. What it holds when a run begins is what that run has.
        model: The model's name at its server; or a model of your own, with `complete` and `stream`.
        instructions: What the model is told before every conversation.
        max_turns: Answers of the model that may call tools; then one last answer without. 10 by default.
        **options: See RunnerOptions.

    Raises:
        ValueError: An option has no such value.
        TypeError: There is no such option, or the model is none.

    Example:
        >>> from toolkit.testing import ScriptedModel, call
        >>> def add(a: int, b: int) -> int:
        ...     '''Add two numbers.'''
        ...     return a + b
        >>> runner = Runner([add], model=ScriptedModel([[call("add", a=15, b=27)], "It is 42."]))
        >>> runner.run("What is 15 + 27?").output
        'It is 42.'
    """

    def __init__(
        self,
        toolbox: Toolbox | Iterable[Addable] = (),
        *,
        model: str | Model | None = None,
        instructions: str = "",
        max_turns: int | None = None,
        **options: Unpack[RunnerOptions],
    ) -> None:
        if not isinstance(model, (str, Model, type(None))):
            raise TypeError(f"model={model!r} is neither a model's name nor a Model. A client goes in as client=...")
        self.toolbox = toolbox if isinstance(toolbox, Toolbox) else Toolbox(toolbox)
        self.instructions = instructions
        self._assembly = Assembly.of(self.toolbox, model, max_turns, options)

    @property
    def limits(self) -> Limits:
        """How far a run may go."""
        return self._assembly.limits

    def __repr__(self) -> str:
        return f"<Runner of {self.toolbox!r}>"

    @property
    def model(self) -> Model:
        """The model that answers; chosen, and where it is the embedded one fetched and started, when first asked for.

        Raises:
            NoModelError: Nothing says which model should answer.
        """
        return self._assembly.choice.sync_model()

    @property
    @override
    def _inbox(self) -> Inbox:
        return self._assembly.roster.only().inbox

    @property
    @override
    def _cancellation(self) -> Cancellation:
        return self._assembly.roster.only().stop

    @override
    def clear(self, *, steering: bool = True, follow_ups: bool = True) -> None:
        """Take back what the models of all runs have not read yet."""
        for run in self._assembly.roster.all():
            run.inbox.clear(steering=steering, follow_ups=follow_ups)

    @override
    def cancel(self) -> bool:
        """Call off all runs that are under way; tell whether there was one to call off."""
        cancelled = [run.stop.cancel() for run in self._assembly.roster.all()]
        return any(cancelled)

    @override
    def _begin(self, ask: Ask) -> Run[Any]:
        return self._assembly.begun(ask, self.toolbox.snapshot(), self.instructions)
