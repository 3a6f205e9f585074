"""The command `toolkit`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from toolkit import __version__


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line, and give its exit code."""
    parser = argparse.ArgumentParser(prog="toolkit", description="Let a language model call Python functions.")
    parser.add_argument("--version", action="version", version=f"toolkit {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND")
    demo = commands.add_parser("demo", help="watch a language model call three small functions")
    demo.add_argument("--base-url", help="an OpenAI-compatible server, such as http://localhost:11434/v1")
    demo.add_argument("--model", help="the model's name at that server")
    demo.set_defaults(run=_demo)
    options = parser.parse_args(arguments)
    if not hasattr(options, "run"):
        parser.print_help()
        return 2
    return _reported(options)


def _demo(options: argparse.Namespace) -> None:
    from toolkit.cli.demo import demo

    demo(base_url=options.base_url, model=options.model)


def _reported(options: argparse.Namespace) -> int:
    from toolkit.errors import ToolkitError

    try:
        options.run(options)
    except ToolkitError as error:
        print(f"toolkit: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # whoever read has read enough; at exit Python would try to write once more
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0
