"""Choose the model of a run, by the Runner's options, by the environment, or else the embedded model.

The environment is `OPENAI_API_KEY`, `OPENAI_BASE_URL` and `TOOLKIT_MODEL`. If none of them is set, the embedded model
answers, and a message says so once on standard error; a name without a server is an error.

Clients made for an address differ from the openai package's own in two points: they follow no redirects, which would
send the conversation to any address that an answer names; and they limit how much of an answer is read.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import weakref
from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from threading import Lock
from types import ModuleType
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from toolkit._concurrency.async_backend import AsyncBackend
from toolkit._dialects.base import RunDialect
from toolkit._dialects.catalog import API, APIS
from toolkit.errors import NoModelError
from toolkit.models import Model
from toolkit.models.client import ServerModel, copy_options
from toolkit.models.connections import is_openai, make_async_client, make_sync_client
from toolkit.models.errors import get_address, translate_errors
from toolkit.models.openai import OpenAIModel
from toolkit.models.responses import ResponsesModel
from toolkit.models.transport import find_client

if TYPE_CHECKING:
    import asyncio


logger: logging.Logger = logging.getLogger("toolkit")

# The model at OpenAI's own address if none is named.
OPENAI_MODEL = "gpt-6-luna"

# The name that chooses the embedded model.
EMBEDDED = "embedded"
# Seconds after which a client is closed whose model was garbage-collected, unless its loop shuts down before.
CLOSE_DELAY = 0.1

WAYS = """Pass or set one of these:
  - the environment:     OPENAI_API_KEY, or OPENAI_BASE_URL; and TOOLKIT_MODEL for the model's name
  - the embedded model:  model="embedded", after pip install "function-toolkit[local]"; no key, no server
  - in a shell:          toolkit ... --base-url URL --model NAME
  - in Python:           Runner(..., base_url="...", model="...") or Runner(..., client=OpenAI(...), model="...")"""
FALLBACK = """toolkit: no model is configured, so the embedded one answers: {name}, a small model on this machine.
Calls of tools labelled write or destructive need approval. For another model set OPENAI_API_KEY or OPENAI_BASE_URL."""


@dataclass
class ModelChoice:
    """The application's settings about its model, and the models made of them.

    Attributes:
        given: A model of the application's own, for which the other settings are not used.
        name: The model's name at its server.
        client: A client of the openai package, sync or async.
        base_url: Address of an OpenAI-compatible server.
        api_key: The key for it. The environment's key is sent to the environment's address or OpenAI's only.
        dialect: The wire format of tools; None means the model's own default.
        strict: Whether a default dialect with native calls asks the server to enforce schemas.
        options: Further keys of each request.
        api: OpenAI's API that the server speaks, one of APIS; None for the usual one.
        announces: Whether a message on standard error says that the embedded model answers since none is configured.
    """

    given: Model | None = None
    name: str | None = None
    client: Any = None
    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    dialect: RunDialect | None = None
    strict: bool = True
    options: Mapping[str, Any] = field(default_factory=dict)
    api: API | None = None
    announces: bool = True
    _model: Model | None = None
    _by_loop: dict[asyncio.AbstractEventLoop, Model] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _ = APIS[self.api or "chat"]  # refuses any other name
        client = self.client
        if client is not None and not self._has_openai_api(client):
            raise TypeError(
                f"client={client!r:.100} is not a client of OpenAI's API: write client=OpenAI(...), base_url= and "
                "api_key=, or for a Model, model=."
            )
        if self.base_url and (fault := _find_address_fault("base_url", self.base_url)):
            raise ValueError(fault)

    def _has_openai_api(self, client: object) -> bool:
        name, kind = self.api or "chat", type(client)
        if hasattr(kind, name) or hasattr(kind, "__getattr__"):  # a proxy, which may make its client when it is used
            return True
        return not isinstance(client, (type, ModuleType)) and hasattr(client, name)

    @property
    def usual_api(self) -> API:
        """The API: by default Responses for OpenAI's own server, whose newer models have tools with no other."""
        return self.api or ("responses" if self._is_openai else "chat")

    @property
    def _is_openai(self) -> bool:
        if self.client:
            return is_openai(getattr(self.client, "base_url", ""))
        address, key = self._get_address()
        return is_openai(address) if address else bool(key)

    @property
    def is_fallback(self) -> bool:
        """True if no model is configured, so that the embedded one answers."""
        return not (self.given or self.client or any(self._get_address()) or self._get_name())

    @property
    def given_name(self) -> str | None:
        """The model's name, if it is known before the model is chosen."""
        return self.given.name if self.given else self._get_name()

    def get_sync_model(self) -> Model:
        """Return the model of a sync run.

        Raises:
            NoModelError: No model is configured.
        """
        if (known := self._usable_model) is not None:
            return known
        model = self.given or self._use_client() or self._use_address() or self._embed()
        logger.info("The model that answers is %r.", model)
        with _keeping:  # threads at their first runs each make one; runs that keep a rate together need the same
            self._model = chosen = self._usable_model or model
        return chosen

    @property
    def _usable_model(self) -> Model | None:
        """The model made before, if it can still be used."""
        known = self._model
        return known if known is not None and (self.client or getattr(known, "is_open", True)) else None

    async def get_async_model(self) -> Model:
        """Return the model of an async run; a client made here belongs to the running event loop.

        Raises:
            NoModelError: No model is configured.
        """

        async def choose() -> Model:
            return self.get_sync_model()

        model = self.given or self._usable_model
        if model is None:
            self._by_loop.clear()
            # On a thread: it may have to ask a server for its models, or to load the embedded model.
            model = self.get_sync_model() if self.client else await AsyncBackend().call(choose, is_async=False)
        if self.given or self.client or not isinstance(model, ServerModel):
            return model
        return await self._move_to_loop(model)

    async def _move_to_loop(self, model: ServerModel) -> Model:
        import asyncio

        loop = asyncio.get_running_loop()
        opened = self._by_loop.get(loop)
        if opened is None:
            for closed in [known for known in list(self._by_loop) if known.is_closed()]:
                self._by_loop.pop(closed, None)  # another thread may have removed it
            opened = self._by_loop[loop] = await _open_in_loop(model)
        return opened

    def _use_client(self) -> Model | None:
        if not self.client:
            return None
        name = self._get_name()
        if not name:
            raise NoModelError('client= needs the name of a model: pass model="...", or set TOOLKIT_MODEL.')
        return self._make_model(self.client, name)

    def _use_address(self) -> Model | None:
        address, key = self._get_address()
        if not (address or key):
            return None
        if address and (fault := _find_address_fault("OPENAI_BASE_URL", address)):
            raise NoModelError(fault)
        if key and not (key.isascii() and key.isprintable()):
            raise NoModelError(
                "The API key has a character that HTTP does not take, such as a line end or a curly quote: check "
                f"{'api_key' if self.api_key else 'OPENAI_API_KEY'}."
            )
        client = make_sync_client(address, key or "none")  # local servers rarely require a key
        return self._make_model(client, self._get_name() or _find_model(client))

    def _get_address(self) -> tuple[str | None, str | None]:
        """Return a server's address and key; the environment's key is not used with the application's address.

        The embedded model has neither.
        """
        if self._get_name() == EMBEDDED and not self.base_url:
            return None, None
        key = (self.api_key or "").strip()  # a key from a file may end with a line end, which HTTP refuses
        if self.base_url:
            return self.base_url, key
        return os.environ.get("OPENAI_BASE_URL"), key or os.environ.get("OPENAI_API_KEY", "").strip()

    def _get_name(self) -> str | None:
        return self.name or os.environ.get("TOOLKIT_MODEL") or None

    def _make_model(self, client: Any, name: str) -> Model:
        has_responses = self.usual_api == "responses" and (self.api is not None or not _needs_chat(client))
        kind: type[ServerModel] = ResponsesModel if has_responses else OpenAIModel
        dialect = self.dialect or APIS[kind.api][kind.api](strict=self.strict)
        return kind(client, name, dialect=dialect, options=self.options)

    def _embed(self) -> Model:
        if self._get_name() not in (None, EMBEDDED):
            source = f"model={self.name!r}" if self.name else f"TOOLKIT_MODEL={self._get_name()!r}"
            raise NoModelError(f"{source} names a model, but not its server: OPENAI_API_KEY is not set.\n{WAYS}")
        if not self._get_name() and find_spec("xllamacpp") is None:
            raise NoModelError(f"No model is configured. {WAYS}")
        if self.usual_api != "chat":
            raise NoModelError(f"The embedded model speaks Chat Completions only: leave out api={self.api!r}.")
        from toolkit.models.local import NAME, embedded_model

        if self.is_fallback and self.announces and _announcing.acquire(blocking=False):
            print(FALLBACK.format(name=NAME), file=sys.stderr)
        model = embedded_model()
        model.dialect = self.dialect or model.dialect
        model.options = copy_options(self.options)
        return model


_keeping = Lock()
# Acquired by whoever writes which model answers and why, and never released: it is written once in a process.
_announcing = Lock()


def _find_address_fault(name: str, address: Any) -> str:
    """Return an error message if an address is not that of a server, otherwise an empty text."""
    with suppress(ValueError):  # it is not a URL
        parts = urlsplit(str(address))
        is_server = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0 and not parts.query
        is_request = re.search("/(chat/completions|completions|responses)/*$", parts.path)
        if is_server and not is_request and not re.search(r"\s", str(address)):
            return ""
    return (
        f"{name} takes the address of a server, such as 'http://localhost:11434/v1', without spaces, the path of a "
        "request, or a query, which client=OpenAI(default_query=...) takes."
    )


def _needs_chat(client: Any) -> bool:
    """Return whether only Chat Completions of a client were replaced, as in a test, or it is a double, such as a mock.

    Who traces requests wraps both methods of the package's own client.
    """
    import openai

    if find_client(getattr(getattr(client, "responses", None), "create", None)) is None:
        return not issubclass(type(client), (openai.OpenAI, openai.AsyncOpenAI))
    return find_client(client.chat.completions.create) is None


async def _open_in_loop(model: ServerModel) -> Model:
    """Return the same model with an async client, closed when the model is garbage-collected or the loop shuts down."""
    import asyncio

    closer = _open_client(model)
    opened = await closer.__anext__()  # asyncio.run() closes generators that were started in its loop
    weakref.finalize(opened, _close_later, asyncio.get_running_loop(), closer).atexit = False
    return opened


def _close_later(loop: asyncio.AbstractEventLoop, closer: AsyncGenerator[ServerModel, None]) -> None:
    """Close a client in its loop after CLOSE_DELAY, unless the loop shuts down before, and closes it itself."""
    with suppress(RuntimeError):  # the loop is closed
        # The timer only keeps a reference to the generator: the loop closes it when it is garbage-collected.
        loop.call_soon_threadsafe(loop.call_later, CLOSE_DELAY, closer.__aiter__)


async def _open_client(model: ServerModel) -> AsyncGenerator[ServerModel, None]:
    client = make_async_client(model.client.base_url, model.client.api_key)
    try:
        yield model.with_client(client)
    finally:
        with suppress(RuntimeError):  # a loop that was left without being closed, as by nest_asyncio, is gone
            await client.close()


def _find_model(client: Any) -> str:
    """Return the name of OpenAI's default model, or of the first that another server lists: most have one."""
    if is_openai(client.base_url):
        return OPENAI_MODEL
    with translate_errors(client):
        models = client.models.list().data
        name = str(models[0].id) if models else ""
    if not name:
        raise NoModelError(
            f'The server at {get_address(client)} lists no model. Pass model="...", or set TOOLKIT_MODEL.'
        )
    return name
