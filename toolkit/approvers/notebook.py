"""A person in a notebook is asked, in a field under the cell."""

from __future__ import annotations

import sys

from toolkit.approvers.console import Console


class Notebook(Console):
    """An approver that asks in a notebook, in the way of `Console`.

    The field is that of `input()`, which every front end has; without a front end the call is rejected. Buttons of
    ipywidgets would wait for ever: a kernel hears of a click only once the cell has ended.
    """

    @property
    def can_ask(self) -> bool:
        """Whether there is somebody to ask: a kernel, whose `input()` refuses where it has no front end."""
        shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
        return self._read is not None or getattr(shell, "kernel", None) is not None
