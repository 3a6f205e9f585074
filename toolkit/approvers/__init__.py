"""Who is asked for approval, and when: people at a terminal, in a notebook or elsewhere, and policies that ask them."""

from __future__ import annotations

from toolkit._execution.approval import Decided as Decided
from toolkit.approvers.console import Console as Console
from toolkit.approvers.desk import Desk as Desk
from toolkit.approvers.notebook import Notebook as Notebook
from toolkit.approvers.policies import allow as allow
from toolkit.approvers.policies import approve_all as approve_all
from toolkit.approvers.policies import ask_when as ask_when
from toolkit.approvers.policies import defer as defer
