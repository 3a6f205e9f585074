"""Measure the overhead of the toolkit, as ratios to the same work written by hand. README.md explains them."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import version
from itertools import pairwise, product
from pathlib import Path
from statistics import median
from time import process_time
from typing import TypeAlias

# A script finds what lies beside it; this one belongs to a package, and measures the checkout that it lies in.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import cases, limits, wide
from benchmarks.measure import Comparison, Effort, compared, event_loop, repeated, repeated_in, settle, summed_up
from benchmarks.server import serving
from toolkit import Toolbox, tool

ROOT = sys.path[0]
DEFAULT = Effort(rounds=21, seconds=0.004, conversations=5, long_by_hand=True)
QUICK = Effort(rounds=5, seconds=0.002, conversations=3, long_by_hand=False)

# Turns of a long conversation whose medians are compared; single turns differ by what the collector does in them.
EARLY, LATE = slice(5, 15), slice(195, 205)

WIDTH = 48


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Attributes:
        aim: What the ratio should not exceed; None where the row is there to be compared with.
    """

    name: str
    aim: float | None
    found: Comparison

    def __str__(self) -> str:
        aim = f"{self.aim:.2f}" if self.aim else "-"
        over = "over" if self.aim and self.found.ratio > self.aim else ""
        times = f"[{shown(self.found.measured)} / {shown(self.found.base)}]"
        return f"{self.name:<{WIDTH}}{self.found.ratio:7.2f}{aim:>6} {over:<5}{times}"


Section: TypeAlias = Callable[[Effort], Iterator[Row]]


def imports(effort: Effort) -> Iterator[Row]:
    """Compare fresh processes that import one thing."""
    if loaded := child("import sys, toolkit; print(*{'openai', 'pydantic'} & sys.modules.keys())"):
        raise SystemExit(f"import toolkit loads {loaded}, and should load neither openai nor pydantic.")
    print("import toolkit loads neither openai nor pydantic")
    for statement in ("import toolkit", "from toolkit import tool"):
        found = compared(partial(import_cost, statement), partial(import_cost, "import pydantic"), effort.rounds)
        yield Row(f"{statement} / import pydantic", 1.1, found)


def invokes(effort: Effort) -> Iterator[Row]:
    """Compare single calls with pydantic-core around the function."""
    with event_loop() as loop:
        for name, case in cases.CASES.items():
            yield Row(f"invoke {name}, sync / pydantic-core", case.aim, invoked(case, effort))
            yield Row(f"invoke {name}, async / pydantic-core", case.aim, ainvoked(case, effort, loop))


def decorating(effort: Effort) -> Iterator[Row]:
    """Compare tools of many functions with the bare JSON Schema of their arguments."""
    by_hand = fresh(lambda functions: [limits.described(function) for function in functions])
    decorated = fresh(lambda functions: [tool(function) for function in functions])
    shown = fresh(lambda functions: [tool(function).parameters for function in functions])
    yield Row("decorate / bare pydantic", 0.02, compared(decorated, by_hand, effort.rounds))
    yield Row("decorate + schema / bare pydantic", 0.6, compared(shown, by_hand, effort.rounds))


def scaling(effort: Effort) -> Iterator[Row]:
    """Compare the first request of a large toolbox with the bare JSON Schemas, and the second with the first."""
    by_hand = fresh(lambda functions: [limits.described(function) for function in functions])
    for size in (100, 1000):
        first = fresh(lambda functions: Toolbox(functions).schemas("chat"), size)
        yield Row(f"first request of {size} tools, each / bare pydantic", 0.3, compared(first, by_hand, effort.rounds))
    box = Toolbox(cases.reports(range(1000)))
    again = repeated(lambda: box.schemas("chat"), effort.seconds)
    yield Row("request, 1000 tools / schema of one by pydantic", 0.1, compared(again, by_hand, effort.rounds))


def fresh(work: Callable[[list[Callable[..., str]]], object], size: int = 10) -> Callable[[], float]:
    """Make a sample of work on new functions; it returns the CPU seconds for each of them."""

    def sample() -> float:
        functions = cases.reports(range(size))
        began = process_time()
        work(functions)
        return (process_time() - began) / size

    return sample


def invoked(case: cases.Case, effort: Effort) -> Comparison:
    """Compare calls of a function."""
    invoke, call, words = tool(case.function).invoke, limits.called(case.function), case.words
    return compared(
        repeated(lambda: invoke(words).text, effort.seconds),
        repeated(lambda: call(words), effort.seconds),
        effort.rounds,
    )


def ainvoked(case: cases.Case, effort: Effort, loop: asyncio.AbstractEventLoop) -> Comparison:
    """Compare calls of a coroutine function."""
    invoke, call, words = tool(case.afunction).ainvoke, limits.acalled(case.afunction), case.words

    async def text() -> str | None:
        return (await invoke(words)).text

    return compared(
        repeated_in(loop, text, effort.seconds),
        repeated_in(loop, lambda: call(words), effort.seconds),
        effort.rounds,
    )


def loops(effort: Effort) -> Iterator[Row]:
    """Compare turns of short conversations with a loop by hand."""
    sizes = {"1 call a turn": (1, 0.4), "8 calls a turn": (8, 0.3)}
    with serving() as port, event_loop() as loop:
        for (size, (calls, aim)), stream, (kind, make) in product(sizes.items(), (False, True), kinds(loop).items()):
            held = make(port, turns=10, calls=calls, stream=stream)
            name = f"loop, {size}, {kind}{', streamed' if stream else ''} / by hand"
            yield Row(name, aim, compared(held.runner_turn, held.hand_turn, effort.rounds))


def crowds(effort: Effort) -> Iterator[Row]:
    """Compare many conversations at the same time with as many hand-written loops."""
    with serving() as port, event_loop() as loop:
        sizes = {50: effort.rounds, 500: effort.conversations}
        for (size, rounds), (kind, aim) in product(sizes.items(), {"client=": 0.8, "base_url=": 0.55}.items()):
            held = cases.aconversation(loop, port, turns=3, calls=1, crowd=size, own_client=kind == "base_url=")
            found = compared(held.runner_turn, held.hand_turn, rounds)
            yield Row(f"{size} conversations at once, {kind} / by hand", aim, found)


def wides(effort: Effort) -> Iterator[Row]:
    """Compare the wall-clock time of many calls in one turn with that of one."""
    with serving() as port, event_loop() as loop:
        for calls, aim in ((64, 1.3), (256, 1.7)):
            for kind, span in wide.spans(loop, port, calls).items():
                yield Row(f"{calls} {kind}: time / of one", aim, compared(span, lambda: wide.NAP, effort.rounds))


def growths(effort: Effort) -> Iterator[Row]:
    """Compare late turns of one long conversation with early ones."""
    with serving() as port, event_loop() as loop:
        for kind, make in kinds(loop).items():
            held = make(port, turns=LATE.stop + 2, calls=1)
            found = summed_up([grown(held, held.runner_turn) for _ in range(effort.conversations)])
            yield Row(f"growth, {kind}: turn 200 / turn 10", 2.0, found)
        if effort.long_by_hand:
            held = cases.conversation(port, turns=LATE.stop + 2, calls=1)
            once = summed_up([grown(held, held.hand_turn)])
            yield Row("growth, sync, by hand: turn 200 / turn 10", None, once)


def kinds(loop: asyncio.AbstractEventLoop) -> Mapping[str, Callable[..., cases.Conversation]]:
    """Name the kinds of conversations."""
    return {"sync": cases.conversation, "async": partial(cases.aconversation, loop)}


def grown(held: cases.Conversation, hold: Callable[[], float]) -> tuple[float, float]:
    """Measure the CPU seconds of a late turn and of an early one."""
    settle()
    hold()
    each = [after - before for before, after in pairwise(held.clock)]
    return median(each[LATE]), median(each[EARLY])


def import_cost(statement: str) -> float:
    """Measure the CPU seconds of a process that imports and ends, including the interpreter's start."""
    return float(child(f"{statement}\nimport time; print(time.process_time())"))


def child(script: str) -> str:
    """Run a script in a fresh process, and return its output."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (ROOT, os.environ.get("PYTHONPATH"))))}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # compiling is not part of an import after the first
    done = subprocess.run([sys.executable, "-c", script], env=environment, stdout=subprocess.PIPE, check=True)  # noqa: S603
    return done.stdout.decode().strip()


def shown(seconds: float) -> str:
    """Format a time with a suitable unit."""
    unit, factor = ("ms", 1e3) if seconds >= 1e-3 else ("us", 1e6)
    return f"{seconds * factor:.2f} {unit}"


def about() -> dict[str, str]:
    """Describe the machine and the versions."""
    machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} CPUs"
    packages = {name: version(name) for name in ("pydantic", "openai")}
    return {"machine": machine, "Python": platform.python_version(), **packages}


SECTIONS: Mapping[str, Section] = {
    "import": imports,
    "decorate": decorating,
    "scale": scaling,
    "invoke": invokes,
    "loop": loops,
    "crowd": crowds,
    "wide": wides,
    "growth": growths,
}


def sections(text: str) -> list[str]:
    """Parse the value of `--only`."""
    names = text.split(",")
    if unknown := set(names) - SECTIONS.keys():
        raise argparse.ArgumentTypeError(f"{', '.join(sorted(unknown))}: choose from {', '.join(SECTIONS)}")
    return names


def main() -> None:
    """Measure, print each row when it is ready, and write the file of `--json`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds, and no long conversation by hand")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows there too; times are in seconds")
    parser.add_argument("--only", type=sections, default=list(SECTIONS), metavar=",".join(SECTIONS))
    options = parser.parse_args()
    os.environ["NO_PROXY"] = "127.0.0.1"  # a proxy of the environment would be measured too
    effort = QUICK if options.quick else DEFAULT
    print("; ".join(f"{name}: {value}" for name, value in about().items()))
    print(f"{'what / compared with':<{WIDTH}}{'ratio':>7}{'aim':>6} {'':<5}[CPU of one / CPU of the other]")
    rows: list[Row] = []
    for row in (row for name in options.only for row in SECTIONS[name](effort)):
        print(row, flush=True)
        rows.append(row)
    if options.json:
        options.json.write_text(json.dumps({"about": about(), "rows": [asdict(row) for row in rows]}, indent=1))


if __name__ == "__main__":
    main()
