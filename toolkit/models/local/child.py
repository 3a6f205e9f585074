"""The process that holds the embedded model; it lives no longer than the pipe from its owner.

It is run as a script and imports nothing of the package. It tells its address, or what went wrong, as one line of JSON
on its standard output, then waits on its standard input: when that closes, by `close()`, at the owner's exit or at its
death, it ends. llama.cpp writes to neither of the owner's streams, and a crash of it takes nothing else along.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import sys
from typing import Any


def serve(settings: dict[str, Any]) -> None:
    """Load the model, tell where it answers, and wait for the end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    told = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # 2 is the null device: native code prints to neither
    try:
        _server, reply = _loaded(settings)  # it answers as long as it is held
    except Exception as error:  # noqa: BLE001  whatever it is, the owner tells the user
        reply = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps(reply), file=told, flush=True)
    sys.stdin.read()
    os._exit(0)  # llama.cpp's own end can hang while a request is running


def _loaded(settings: dict[str, Any]) -> tuple[object, dict[str, str]]:
    import xllamacpp as native  # type: ignore[import-untyped]

    xllamacpp: Any = native  # it has no types

    key = secrets.token_urlsafe()
    params = xllamacpp.CommonParams()
    params.model.path = settings["path"]
    params.api_keys = [key]  # other users of this machine shall not talk to it
    params.n_ctx = settings["context"]
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = settings["threads"]
    params.n_parallel = 1  # one slot has the whole context
    params.cache_ram_mib = 256  # states of other prompts, swapped in and out of the slot
    params.use_jinja = False  # plain ChatML; the schema of a reply is then enforced by LLGuidance
    params.warmup = params.ui = params.fit_params = False
    params.verbosity = -1
    server = xllamacpp.Server(params)
    return server, {"base_url": f"{server.listening_address}/v1", "api_key": key}


if __name__ == "__main__":
    serve(json.loads(sys.argv[1]))
