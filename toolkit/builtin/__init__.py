"""Built-in tools: for files, commands, the web, data, knowledge, schedules, and talking to the user.

    from toolkit.builtin import file_tools, http_tool, shell_tool

    Toolbox([*file_tools("work"), shell_tool("work"), http_tool()])

Most tools are made by a function whose arguments set their limits; no module has state. Every name here is loaded
when it is first used. The limits (public addresses, one directory) are enforced in `toolkit._guards`;
tools from OpenAPI documents, MCP servers and other agents are in `toolkit.sources`.

Files, each importing only those below it:

    shell            commands, and the tools of an agent that works on a project
    knowledge        texts for later conversations, found by meaning
    schedule         actions that run later
    files            files of one directory
    code             a program that the model writes and that calls tools
    plan             many calls in one, and calls that a tool makes of other tools
    ask_user         questions to the user
    web_search       search engines, and the pages that they find
    provider         tools that the model's provider executes
    http             web pages
    samples          small tools for examples and tests
    data             tables: parse, filter, aggregate
    notes            a model's list of tasks, and texts that several agents share
    time_and_random  the current time, random integers
    services         the weather and Wikipedia, and the client for such services
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolkit._lazy import lazy_names

if TYPE_CHECKING:
    from toolkit._guards.paths import Root as Root
    from toolkit.builtin.ask_user import Question as Question
    from toolkit.builtin.ask_user import ask_user_tool as ask_user_tool
    from toolkit.builtin.code import code_tool as code_tool
    from toolkit.builtin.data import data_tools as data_tools
    from toolkit.builtin.files import coding_tools as coding_tools
    from toolkit.builtin.files import file_tools as file_tools
    from toolkit.builtin.files.coding import CodingLimits as CodingLimits
    from toolkit.builtin.files.sensitive import DEFAULT_GUARDED as DEFAULT_GUARDED
    from toolkit.builtin.files.sensitive import DEFAULT_PRIVATE as DEFAULT_PRIVATE
    from toolkit.builtin.http import Page as Page
    from toolkit.builtin.http import WebOptions as WebOptions
    from toolkit.builtin.http import fetch as fetch
    from toolkit.builtin.http import http_tool as http_tool
    from toolkit.builtin.knowledge import Memories as Memories
    from toolkit.builtin.knowledge import ingest_file as ingest_file
    from toolkit.builtin.knowledge import ingest_message as ingest_message
    from toolkit.builtin.knowledge import ingest_text as ingest_text
    from toolkit.builtin.knowledge import ingest_url as ingest_url
    from toolkit.builtin.knowledge import knowledge_tools as knowledge_tools
    from toolkit.builtin.knowledge import memory_tool as memory_tool
    from toolkit.builtin.notes import SharedState as SharedState
    from toolkit.builtin.notes import Todos as Todos
    from toolkit.builtin.notes import shared_state_tool as shared_state_tool
    from toolkit.builtin.notes import todo_tool as todo_tool
    from toolkit.builtin.plan import plan_tool as plan_tool
    from toolkit.builtin.provider import provider_tool as provider_tool
    from toolkit.builtin.schedule.recurrence import next_run as next_run
    from toolkit.builtin.schedule.scheduler import FiringOutcome as FiringOutcome
    from toolkit.builtin.schedule.scheduler import Scheduler as Scheduler
    from toolkit.builtin.schedule.scheduler import planned_only as planned_only
    from toolkit.builtin.schedule.store import Action as Action
    from toolkit.builtin.schedule.store import Firing as Firing
    from toolkit.builtin.schedule.store import SQLiteSchedule as SQLiteSchedule
    from toolkit.builtin.schedule.tools import schedule_tools as schedule_tools
    from toolkit.builtin.services import weather_tool as weather_tool
    from toolkit.builtin.services import wikipedia_tool as wikipedia_tool
    from toolkit.builtin.shell import bash_tool as bash_tool
    from toolkit.builtin.shell import default_tools as default_tools
    from toolkit.builtin.shell import shell_tool as shell_tool
    from toolkit.builtin.shell.sandbox import DEFAULT_HIDDEN as DEFAULT_HIDDEN
    from toolkit.builtin.shell.sandbox import CommandLimits as CommandLimits
    from toolkit.builtin.shell.sandbox import Sandbox as Sandbox
    from toolkit.builtin.time_and_random import current_time as current_time
    from toolkit.builtin.time_and_random import random_tool as random_tool
    from toolkit.builtin.web_search import Brave as Brave
    from toolkit.builtin.web_search import Result as Result
    from toolkit.builtin.web_search import Serper as Serper
    from toolkit.builtin.web_search import search_tool as search_tool
    from toolkit.builtin.web_search import web_search_tool as web_search_tool

# The public names by module. Type checkers read the imports above instead; a test compares the two.
_HOMES = {
    "toolkit._guards.paths": ("Root",),
    "toolkit.builtin.ask_user": ("Question", "ask_user_tool"),
    "toolkit.builtin.code": ("code_tool",),
    "toolkit.builtin.data": ("data_tools",),
    "toolkit.builtin.files": ("coding_tools", "file_tools"),
    "toolkit.builtin.files.coding": ("CodingLimits",),
    "toolkit.builtin.files.sensitive": ("DEFAULT_GUARDED", "DEFAULT_PRIVATE"),
    "toolkit.builtin.http": ("Page", "WebOptions", "fetch", "http_tool"),
    "toolkit.builtin.knowledge": (
        "Memories",
        "ingest_file",
        "ingest_message",
        "ingest_text",
        "ingest_url",
        "knowledge_tools",
        "memory_tool",
    ),
    "toolkit.builtin.notes": ("SharedState", "Todos", "shared_state_tool", "todo_tool"),
    "toolkit.builtin.plan": ("plan_tool",),
    "toolkit.builtin.provider": ("provider_tool",),
    "toolkit.builtin.schedule.recurrence": ("next_run",),
    "toolkit.builtin.schedule.scheduler": ("FiringOutcome", "Scheduler", "planned_only"),
    "toolkit.builtin.schedule.store": ("Action", "Firing", "SQLiteSchedule"),
    "toolkit.builtin.schedule.tools": ("schedule_tools",),
    "toolkit.builtin.services": ("weather_tool", "wikipedia_tool"),
    "toolkit.builtin.shell": ("bash_tool", "default_tools", "shell_tool"),
    "toolkit.builtin.shell.sandbox": ("DEFAULT_HIDDEN", "CommandLimits", "Sandbox"),
    "toolkit.builtin.time_and_random": ("current_time", "random_tool"),
    "toolkit.builtin.web_search": ("Brave", "Result", "Serper", "search_tool", "web_search_tool"),
}

if not TYPE_CHECKING:  # with __getattr__, a type checker would accept any name
    __getattr__, __dir__, __all__ = lazy_names(globals(), _HOMES)
