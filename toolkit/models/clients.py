"""Clients of the openai package that are made here, for an address and a key.

They differ from the package's own in two points: they follow no redirect, which would send the conversation to whatever
address the answer names; and they read no answer without end, be it streamed or not.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from toolkit.models.bounds import bound

if TYPE_CHECKING:
    import httpx2
    import openai


def sync_client(base_url: Any, api_key: str) -> openai.OpenAI:
    """Make a client for `run` and `stream`; its connections are closed with it."""
    import openai

    http = openai.DefaultHttpxClient(follow_redirects=False, event_hooks={"response": [bound]})
    client = openai.OpenAI(base_url=base_url, api_key=api_key, http_client=http)
    weakref.finalize(client, http.close)
    return client


def async_client(base_url: Any, api_key: str) -> openai.AsyncOpenAI:
    """Make a client for `arun` and `astream`; it belongs to the loop that it is used in, and is to be closed there."""
    import openai

    http = openai.DefaultAsyncHttpxClient(follow_redirects=False, event_hooks={"response": [_bound_later]})
    return openai.AsyncOpenAI(base_url=base_url, api_key=api_key, http_client=http)


async def _bound_later(response: httpx2.Response) -> None:
    bound(response)
