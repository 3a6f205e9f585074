"""The process that serves the embedded model until the pipe from its owner closes.

It runs as a script and imports nothing of the package. It writes its address, or an error, as one line of JSON to its
standard output, then waits until its standard input closes, by `close()` or because the owner ended. llama.cpp writes
to none of the owner's streams, and its crash ends only this process.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import sys
from pathlib import Path
from typing import Any

# Tokens of prompt and answer, together.
CONTEXT = 4096
# Threads for computing. They wait for each other by spinning, so with one for each core another program on the machine
# slows them down by a factor of ten; half the cores are enough for a model of this size.
THREADS = min(4, max(1, (os.cpu_count() or 1) // 2))


def serve(path: str) -> None:
    """Load the model, report its address, and wait for the owner to end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    pipe = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # to the null device, so that native code prints nothing
    try:
        _server, reply = _start(path)  # the server runs as long as it is referenced
    except ImportError as error:  # xllamacpp is installed, but small container images lack a library that it needs
        reply = {"error": f"a library of the system is missing: {error}. On Debian: apt-get install libgomp1"}
    except Exception as error:  # noqa: BLE001  the owner reports it
        reply = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps(reply), file=pipe, flush=True)
    sys.stdin.read()
    os._exit(0)  # a regular exit of llama.cpp can hang while a request is running


def _start(path: str) -> tuple[object, dict[str, str]]:
    import xllamacpp as native  # type: ignore[import-untyped]

    xllamacpp: Any = native  # it has no types

    key = secrets.token_urlsafe()
    params = xllamacpp.CommonParams()
    params.model.path = path
    params.model_alias = {Path(path).stem}  # the name in answers, in place of the path
    params.api_keys = [key]  # keeps other users of this machine out
    params.n_ctx = CONTEXT
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = THREADS
    params.n_parallel = 1  # one slot has the whole context
    params.cache_ram_mib = 256  # states of other prompts, swapped in and out of the slot
    params.use_jinja = False  # plain ChatML, with which LLGuidance enforces the schema of a reply
    params.warmup = params.ui = params.fit_params = False
    params.verbosity = -1
    server = xllamacpp.Server(params)
    return server, {"base_url": f"{server.listening_address}/v1", "api_key": key}


if __name__ == "__main__":
    serve(sys.argv[1])
