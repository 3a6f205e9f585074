"""The commands about a file of one's own."""

from __future__ import annotations

import io
import json
import os
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from tests.servers import FakeServer
from toolkit.cli import main
from toolkit.testing import reply

pytestmark = pytest.mark.usefixtures("own_process")


def quote(word: str) -> str:
    """Quote a word for the shell of this system."""
    return subprocess.list2cmdline([word]) if sys.platform == "win32" else shlex.quote(word)


JSON = '{"city": "Rome"}'
TOOLS = '''
from typing import Literal

from toolkit import Runner, Toolbox, tool


@tool
def get_weather(city: str, unit: Literal["celsius", "fahrenheit"] = "celsius", days: int = 1) -> str:
    """Current weather for a city.

    Args:
        city: City name [in English].
    """
    return f"{days} days of 21 degrees {unit} in {city}"


@tool(effect="destructive")
def delete_book(title: str) -> str:
    """Delete a book."""
    return f"{title} is gone"


@tool
def collect(
    words: list[str] | None = None, sizes: dict[str, int] | None = None, loud: bool = False, half: float = 0.5
) -> str:
    """Collect values."""
    return f"{words} {sizes} {loud} {half}"


@tool
def halve(value, places: int | str = 0):
    """Halve a value, which may
    be anything.

    The tool says whether it can be halved.
    """
    return round(value / 2, places) if places else value / 2


def double(x: int) -> int:
    return 2 * x
'''


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with tools.py, which is the working directory."""
    (tmp_path / "tools.py").write_text(TOOLS, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(path: Path, text: str) -> None:
    path.write_text(dedent(text), encoding="utf-8")


@pytest.fixture
def server() -> Iterator[FakeServer]:
    """A server whose model calls get_weather, and answers."""
    with FakeServer([reply.calls(("get_weather", {"city": "Jakarta"})), reply.text("It is warm.")]) as server:
        yield server


def test_list(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The tools of a file are listed with signature, effect and summary; other functions with --all alone."""
    assert 0 == main(["list", "tools.py"])
    listed = capsys.readouterr().out

    assert listed.splitlines()[2:4] == ["delete_book(title: str) -> str  [destructive]", "    Delete a book."]
    assert "    Halve a value, which may be anything." in listed.splitlines()
    assert "double" not in listed
    assert 0 == main(["list", "tools.py", "--all"])
    assert "double(x: int) -> int" in capsys.readouterr().out


def test_list_of_objects(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The decorated methods of a file's objects are tools, too."""
    write(
        files / "shelf.py",
        """
        from toolkit import tool

        class Shelf:
            @tool
            def find(self, title: str) -> str:
                "Find a book."
                return title

        shelf = Shelf()
        """,
    )

    assert 0 == main(["call", "shelf.py", "find", "--title", "Dune"])
    assert "Dune\n" == capsys.readouterr().out


def test_sizes(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The size of each schema is listed in bytes and, at four bytes each, in tokens, with the sum of all."""
    write(
        files / "shelf.py",
        """
        from toolkit import tool

        @tool
        def find(title: str) -> str:
            "Find a book."
            return title
        """,
    )

    assert 0 == main(["list", "shelf.py", "--sizes"])
    assert [
        "find          197 bytes  about      49 tokens",
        "in all        197 bytes  about      49 tokens",
    ] == capsys.readouterr().out.splitlines()


def test_list_of_what_a_model_fills_in(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither the context nor the constraints are listed; a tool without a function has the types of its schema."""
    write(
        files / "shelf.py",
        """
        from typing import Annotated
        from pydantic import Field
        from toolkit import Tool, ToolContext, tool

        @tool
        def find(title: str, context: ToolContext[dict], row: Annotated[int, Field(ge=1)] = 1) -> str:
            return title

        place = Tool.from_schema("place", {"type": "object", "properties": {"row": {"type": "integer"}}}, print)
        """,
    )

    assert 0 == main(["list", "shelf.py"])
    assert ["find(title: str, row: int = 1) -> str", "place(row: integer = ...)"] == (
        capsys.readouterr().out.splitlines()
    )


@pytest.mark.parametrize(
    ("arguments", "result"),
    [
        (["get_weather", "--city", "Jakarta"], "1 days of 21 degrees celsius in Jakarta"),
        (["get_weather", "--city=", "--unit", "fahrenheit", "--days", "3"], "3 days of 21 degrees fahrenheit in "),
        (
            ["get_weather", "--arguments", '{"city": "A", "days": 2}', "--city", "B"],
            "2 days of 21 degrees celsius in B",
        ),
        (["collect", "--words", "a", "--words", "-b", "--loud"], "['a', '-b'] None True 0.5"),
        (["collect", "--sizes", '{"a": 1}', "--no-loud", "--half", "-2"], "None {'a': 1} False -2.0"),
        (["delete_book", "--title", "[bold]"], "[bold] is gone"),
        (["halve", "--value", "5"], "2.5"),
    ],
)
def test_call(files: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], result: str) -> None:
    """A tool's parameters are options; what is not given has the tool's default."""
    assert 0 == main(["call", "tools.py", *arguments])
    assert f"{result}\n" == capsys.readouterr().out


GUARDED = """
from toolkit import tool


@tool(approve=lambda request: request.arguments["amount"] > 50)
def pay(amount: int) -> str:
    return f"paid {amount}"


@tool(approve=True)
def vote(yes: bool) -> str:
    return f"voted {yes}"
"""


@pytest.mark.parametrize(
    ("arguments", "answers", "code", "shown"),
    [
        (["pay", "--amount", "5"], "", 0, "paid 5\n"),
        (["pay", "--amount", "70"], "", 1, "no terminal to ask at: pass --yes."),
        (["pay", "--amount", "70", "--yes"], "", 0, "paid 70\n"),
        (["pay", "-y", "--amount", "70"], "", 0, "paid 70\n"),
        (["vote", "--yes"], "", 1, "no terminal to ask at"),
        (["pay", "--amount", "70"], "y\n", 0, "paid 70\n"),
        (["pay", "--amount", "70"], "n too much\n", 1, "rejected by the user. Reason: too much"),
        (["pay", "--amount", "70"], "s too much\n", 1, "toolkit: Not run: the run was stopped"),
    ],
)
def test_call_with_approval(
    files: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    answers: str,
    code: int,
    shown: str,
) -> None:
    """A call whose tool requires approval asks at a terminal, or takes --yes, which a parameter may have for itself."""
    write(files / "guarded.py", GUARDED)
    terminal = io.StringIO(answers)
    terminal.isatty = lambda: bool(answers)  # type: ignore[method-assign]
    monkeypatch.setattr(sys, "stdin", terminal)

    assert code == main(["call", "guarded.py", *arguments])
    assert shown in "".join(capsys.readouterr())


def test_help_of_a_tool(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The help of a tool has its description, and its parameters with their texts, brackets included."""
    assert 0 == main(["call", "tools.py", "get_weather", "--help"])
    shown = " ".join(capsys.readouterr().out.split())

    assert "Current weather for a city." in shown
    assert "City name [in English]. [required]" in shown
    assert '[default: "celsius"]' in shown
    assert 0 == main(["call", "tools.py", "collect", "-h"])
    assert "--words <list[str]> [once per item]" in " ".join(capsys.readouterr().out.split())


NESTED = """
from __future__ import annotations
from typing import Any, Literal
from pydantic import BaseModel


class Person(BaseModel):
    name: str
    role: Literal["reader", "author"] = "reader"
    friends: list[Person] | None = None


def enter(person: Person, at: tuple[int, str], counts: dict[str, int], notes: Any) -> None: ...
"""


@pytest.mark.parametrize(
    "line",
    [
        '--person JSON {"name": string, "role"?: "reader" | "author", "friends"?: [{"name": string, ',
        "--at JSON [integer, string] [required]",
        "--counts JSON {...: integer} [required]",
        "--notes JSON [required]",
    ],
)
def test_help_of_an_object(files: Path, capsys: pytest.CaptureFixture[str], line: str) -> None:
    """The help of a parameter that takes JSON names the members, optional ones with a question mark."""
    write(files / "nested.py", NESTED)
    assert 0 == main(["call", "nested.py", "--all", "enter", "--help"])

    assert line in " ".join(capsys.readouterr().out.split())


def test_code_in_place_of_a_file(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All public functions of code on the command line are tools."""
    code = "import json\ndef double(x: int):\n    return 2 * x\ndef _hidden(): ..."
    assert 0 == main(["call", code, "double", "--x", "4"])
    assert 0 == main(["list", code])

    assert "8\ndouble(x: int)\n" == capsys.readouterr().out


def test_call_with_a_list_of_choices(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A list of choices takes the option once per item."""
    code = "from typing import Literal\ndef join(colours: list[Literal['red', 'blue']]):\n    return '+'.join(colours)"
    assert 0 == main(["call", code, "join", "--colours", "red", "--colours", "blue"])
    assert 1 == main(["call", code, "join", "--colours", "green"])

    assert "red+blue\n" == capsys.readouterr().out


@pytest.mark.parametrize("written", ["[1, 2]", "1,2"])
def test_items_in_one_option(files: Path, capsys: pytest.CaptureFixture[str], written: str) -> None:
    """A list of numbers that is written as one value is refused with what to do."""
    assert 2 == main(["call", "def add(numbers: list[int]): ...", "add", "--numbers", written])

    assert "Repeat the option for each item of the list." in capsys.readouterr().err


def test_help_of_a_format(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The help of a text names the format that it must have."""
    code = "from datetime import datetime\ndef wait(until: datetime): ..."
    assert 0 == main(["call", code, "wait", "--help"])

    assert "--until <str> [format date-time] [required]" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("option", [[], ["--a2a"]], ids=["MCP", "A2A"])
def test_serve_at_a_port_in_use(files: Path, capsys: pytest.CaptureFixture[str], option: list[str]) -> None:
    """Where the port is taken, that is said, and no address is."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert 1 == main(["serve", "tools.py", "--http", port, *option])

    sentence = f"toolkit: Port {port} cannot be used: Address already in use. Name another one with --http; "
    assert capsys.readouterr().err.startswith(sentence)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["call", "tools.py", "get_weather"], 1, "toolkit: Invalid arguments: city: missing"),
        (["call", "tools.py", "get_wether"], 1, "did you mean 'get_weather'?"),
        (["call", "tools.py", "get_weather", "--unit", "kelvin"], 2, "celsius"),
        (["call", "tools.py", "get_weather", "--town", "Rome"], 2, "--town"),
        (["call", "tools.py", "collect", "--sizes", "{"], 2, "--sizes: this is not valid JSON"),
        (["call", "tools.py", "collect", "--words", '["a"]'], 2, "--words: it is a list: repeat the option for each"),
        (["call", "tools.py", "collect", "--sizes", "large"], 1, 'sizes: Input should be an object (received "large")'),
        (["call", "tools.py", "collect", "--arguments", "[]"], 2, "it is not a JSON object"),
        (["call", "tools.py", "collect", "--arguments", "a"], 2, "it is not a JSON object"),
        (["call", "tools.py", "halve", "--value", "no"], 1, "halve raised TypeError: unsupported operand"),
        (["list", "tool.py"], 1, "There is no file 'tool.py'; did you mean 'tools.py'?"),
        (["call", "tools.py", "get_weather", "San Jose"], 2, f"write it as an option: --city {quote('San Jose')}"),
        (["call", "tools.py", "get_weather", "city=Jakarta"], 2, "write it as an option: --city Jakarta"),
        (
            ["call", "tools.py", "get_weather", "--city", "San", "Jose"],
            2,
            "argument(s) (Jose). Quote a text with spaces",
        ),
        (["call", "tools.py", "collect", "--words", "a", "b"], 2, "repeat the option for each item of a list"),
        (["call", "tools.py", "collect", "--loud", "true"], 2, "(true). Quote a text with spaces, repeat"),
        (
            ["call", "tools.py", "--city", "Rome", "get_weather"],
            2,
            "write its name before its options: get_weather or ",
        ),
        (["call", "tools.py", "get_weather", "--city", "Rome", "--yes"], 2, "Leave it out: only the call"),
        (["chat", "tools.py", "Is it warm?"], 2, "Type it into the chat, or write: toolkit run FILE PROMPT."),
        (["resume", "tools.py", "--yes"], 2, "Leave it out: only the call"),
        (["call", "tools.py", "halve", "--x", "8"], 2, "No such option: --x. Available: --value, --places"),
        (["serve", "tools.py", "--port", "8000"], 2, "No such option: --port. Write --http PORT."),
        (["serve", "tools.py", "--stdio"], 2, "No such option: --stdio. Leave it out: without --http"),
        (["call", "def wipe(): return 1", "wipe", "--yes"], 2, "Leave it out: only the call"),
        (["demo", "--local"], 2, "No such option: --local. Write -m embedded."),
        (["run", "tools.py", "Hi", "--temperature", "0"], 2, "Write -o temperature=NUMBER."),
        (["help", "run"], 2, "Write: toolkit --help, or toolkit COMMAND --help."),
        (["tools.py", "Is it warm?"], 2, f"put a command before the file: toolkit run tools.py {quote('Is it warm?')}"),
        (["demo", "--base-url", "localhost"], 1, "takes the address of a server"),
        (["run", "tools.py", "Hi", "-a", "https://a.example/b.png"], 2, "download b.png, or pipe it in with -a -"),
        (["list", "nothing"], 1, "There is no file or module 'nothing'. Available: tools.py"),
        (["list", "tool"], 1, "There is no file or module 'tool'; did you mean 'tools.py'?"),
        (["call", "def double(x): return 2 * x", "duoble", "--x", "2"], 1, "did you mean 'double'?"),
        (["list", "import json"], 1, "The code has no tools."),
        (["run", "tools.py", "Hi", "--approve", "nobody"], 2, "'--approve': 'nobody' is not one of"),
        (["serve", "tools.py", "--http", "many"], 1, "http='many' is not a port: write '8000'"),
        (["list", "."], 1, "'.' is a directory. Name a file in it: tools.py."),
        (["list", "tools.txt"], 1, "'tools.txt' is not a Python file"),
        (["lock", "tools.py"], 1, "There is no file tools.lock.json. If the tools are right, write it: "),
        (
            ["lock", "tools.py", "--update", "--lock", "no/where.json"],
            1,
            "no/where.json cannot be used: No such file or directory",
        ),
        (["run", "Is it warm?"], 1, "'Is it warm?' is not a file. Name one as the first argument, such as tools.py."),
        (["Is it warm?"], 2, f"To ask a model: toolkit run FILE {quote('Is it warm?')}."),
        (["models", "list"], 2, "No such command 'models'. Name a model with -m"),
        (["run", "tools.py", "Hi", "--system", "x"], 2, "No such option: --system. Write -i TEXT."),
        (["chat", "tools.py", "--cid", "x"], 2, "No such option: --cid. Write --session NAME."),
        (["call", "tools.py", "get_weather", JSON], 2, f"as an option: --arguments {quote(JSON)}"),
        (["run", "tools.py", ""], 2, "write it in quotes, or pipe it in"),
        (["run", "tools.py", "Hi", "-a", "photo.png"], 2, "'photo.png' is not a file"),
        (["list", "tools.py:bxo"], 1, "tools.py has no 'bxo'"),
        (["schema", "tools.py", "--dialect", "chatt"], 2, "'chatt' is not one of 'chat', 'responses', "),
        (["check", "tools.py", "--dialect", "chatt"], 2, "'chatt' is not one of 'chat', 'responses', "),
        (["run", "tools.py", "Hi", "--base-url", "localhost:1/v1", "-m", "m"], 1, "takes the address of a server"),
        (["run", "tools.py", "Hi", "--base-url", "http://127.0.0.1:9/v1", "-m", "m"], 1, "cannot be reached"),
        (["run", "tools.py", "Hi", "-m", "m"], 1, "OPENAI_API_KEY is not set"),
        (["lsit", "tools.py"], 2, "list"),
        (["run", "tools.py", "Hi", "-T", "get_wether"], 1, "did you mean 'get_weather'?"),
        (["run", "tools.py", "Hi", "-o", "temperature"], 2, "'temperature' is not KEY=VALUE, such as temperature=0"),
        (["run", "tools.py", "Hi", "-o", "model=3"], 2, "use -m 3"),
        (["run", "tools.py", "Hi", "-o", "messages=[]"], 2, "the command sets 'messages' itself: leave it out"),
        (
            ["run", "tools.py", "Hi", "-a", "data.bin"],
            2,
            "a PDF, nor text in UTF-8.\n",
        ),
        (["run", "tools.py", "Hi", "--schema", "[1]"], 2, "--schema: it is neither a JSON Schema, nor a file"),
        (["run", "tools.py", "Hi", "--schema", "no.json"], 2, "No such file or directory: 'no.json'"),
        (["run", "tools.py", "Hi", "--schema", "name: strin"], 2, "lists): there is no type 'strin'"),
        (["run", "tools.py", "Hi", "--schema", "name: str, age"], 2, "(types: str, int, float, bool, lists): "),
        (
            ["run", "tools.py", "Hi", "--schema", '{"type": "strin"}'],
            2,
            "type is not one of array, boolean, integer, null, number, object, string",
        ),
    ],
)
def test_mistakes(
    files: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, message: str
) -> None:
    """A mistake is a line on standard error that says what is wrong, with an exit code of its kind."""
    (files / "tools.txt").touch()
    (files / "data.bin").write_bytes(b"\xff\xfe\x00")
    assert code == main(arguments)
    captured = capsys.readouterr()

    assert message in captured.err
    assert "Traceback" not in captured.err
    assert "" == captured.out


def run_apart(command: str) -> subprocess.CompletedProcess[bytes]:
    """Run the command in a shell, whose encoding is ASCII."""
    line = f"{sys.executable} -m toolkit {command}"
    settings = {**os.environ, "PYTHONIOENCODING": "ascii"}
    return subprocess.run(line, shell=True, env=settings, capture_output=True, check=False)  # noqa: S602  a test's


def test_pipe_without_utf_8(files: Path) -> None:
    """A pipe gets UTF-8, whatever the locale is."""
    done = run_apart("call 'def greet(): return chr(252)' greet")

    assert (0, "\u00fc\n".encode()) == (done.returncode, done.stdout)


ECHO = """
from toolkit import Runner
from toolkit.testing import ScriptedModel

runner = Runner(model=ScriptedModel(lambda request: request.messages[-1].text))
"""


def test_prompt_in_utf_8(files: Path) -> None:
    """A prompt from a pipe is UTF-8, too, and other bytes are escaped."""
    (files / "echo.py").write_text(ECHO, encoding="utf-8")
    (files / "prompt.txt").write_bytes("Zo\u00eb ".encode() + b"\xff")
    done = run_apart("run --quiet echo.py < prompt.txt")

    assert (0, "Zo\u00eb \\xff\n".encode(), b"") == (done.returncode, done.stdout, done.stderr)


READS = """
import sys
from toolkit.cli import main

sys.stdin.readline()
main(["call", "def greet(): return 'hi'", "greet"])
"""


def test_program_that_has_read_its_input(files: Path) -> None:
    """A program that has read from a pipe can run the command."""
    done = subprocess.run([sys.executable, "-c", READS], input=b"x\ny\n", capture_output=True, check=False)  # noqa: S603

    assert (0, b"hi\n", b"") == (done.returncode, done.stdout, done.stderr)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a disk without space")
def test_full_disk(files: Path) -> None:
    """An answer that cannot be written is one line on standard error."""
    done = run_apart("call 'def count(): return chr(49) * 100000' count > /dev/full")

    assert 1 == done.returncode
    assert done.stderr.startswith(b"toolkit: [Errno 28] No space left on device")
    assert b"Traceback" not in done.stderr


@pytest.mark.skipif(os.name == "nt", reason="needs a shell that closes streams")
def test_closed_streams(files: Path) -> None:
    """The command runs where standard input and output are closed, as in a service."""
    done = run_apart("call tools.py get_weather --city Rome <&- >&-")

    assert (0, b"") == (done.returncode, done.stderr)


@pytest.mark.parametrize("name", ["openai", "random", "time"])
def test_file_with_the_name_of_a_module(files: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    """A file that would hide a module from the library is refused; test.py hides nothing that is needed."""
    write(files / f"{name}.py", TOOLS)
    write(files / "test.py", TOOLS)

    assert 1 == main(["list", f"{name}.py"])
    assert f"'{name}.py' would hide the module '{name}'. Give the file another name." in capsys.readouterr().err
    assert 0 == main(["list", "test.py"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "import no_such_module",
            f"own.py needs the module 'no_such_module'. Install it for this Python: {sys.executable}",
        ),
        ("raise SystemExit(3)", "own.py ended the program while it was imported, by sys.exit(3). Put that under:"),
    ],
)
def test_file_that_cannot_be_imported(files: Path, capsys: pytest.CaptureFixture[str], text: str, message: str) -> None:
    """An error of the file itself ends in a line that says what to do."""
    write(files / "own.py", text)

    assert 1 == main(["list", "own.py"])
    assert capsys.readouterr().err.splitlines()[-1].startswith(f"toolkit: {message}")


def test_call_with_options_in_place_of_a_tool(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where a target has one tool, and its name is missing in front of its options, the error has it."""
    assert 2 == main(["call", "tools.py:get_weather", "--city", "Jakarta"])

    assert "Invalid value for TOOL: write its name before its options: get_weather" in capsys.readouterr().err


def test_call_without_a_tool(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a tool's name, the tools are listed."""
    assert 2 == main(["call", "tools.py"])
    assert "delete_book(" in capsys.readouterr().out


def test_schema(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Schemas are printed as JSON, of all tools or of one, in any dialect."""
    assert 0 == main(["schema", "tools.py", "delete_book", "--dialect", "anthropic"])
    (schema,) = json.loads(capsys.readouterr().out)

    assert ("delete_book", ["title"]) == (schema["name"], schema["input_schema"]["required"])
    assert 0 == main(["schema", "tools.py"])
    assert 4 == len(json.loads(capsys.readouterr().out))


def test_check(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Findings are printed; with warnings the exit code is 1."""
    write(files / "good.py", 'from toolkit import tool\n\n@tool\ndef ready() -> bool:\n    "Return whether it is."\n')

    assert 1 == main(["check", "tools.py"])
    assert "get_weather.days: has no description" in capsys.readouterr().out
    assert 0 == main(["check", "good.py"])


def test_lock(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With --update the definitions are written; without they are compared, and a difference is exit code 1."""
    write(files / "own.py", 'from toolkit import tool\n\n@tool\ndef ready() -> bool:\n    "Return whether it is."\n')

    assert [0, 0] == [main(["lock", "own.py", "--update"]), main(["lock", "own.py"])]
    assert "tools.lock.json: 1 tool written\ntools.lock.json: 1 tool as before\n" == capsys.readouterr().out

    write(files / "new.py", 'from toolkit import tool\n\n@tool\ndef ready() -> bool:\n    "Say whether it is."\n')

    assert 1 == main(["lock", "new.py"])
    error = capsys.readouterr().err
    assert 'ready: description was "Return whether it is.", is "Say whether it is." (reworded)' in error
    assert error.endswith("write it again: toolkit lock new.py --update.\n")
    assert [0, 0] == [main(["lock", "new.py", "--update"]), main(["lock", "new.py"])]


def test_run_in_a_pipe(files: Path, server: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    """In a pipe the answer alone is on standard output, and the calls alone are on standard error."""
    assert 0 == main(["run", "tools.py", "Weather?", "--base-url", server.base_url, "-m", "m", "-i", "Be brief."])
    captured = capsys.readouterr()

    assert "It is warm.\n" == captured.out
    assert "Call      get_weather(city='Jakarta')\nResult    1 days of 21 degrees celsius in Jakarta\n" in captured.err
    assert "warm" not in captured.err
    assert ["Be brief.", "Weather?"] == [message["content"] for message in server.requests[0].body["messages"]]


def test_prompt_from_a_pipe(
    files: Path, server: FakeServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a prompt it is read from standard input; --quiet prints nothing but the answer."""
    monkeypatch.setattr(sys, "stdin", io.StringIO("Weather in\nJakarta?"))

    assert 0 == main(["run", "tools.py", "-q", "--base-url", server.base_url, "-m", "m"])
    assert ("It is warm.\n", "") == capsys.readouterr()
    assert "Weather in\nJakarta?" == server.requests[0].body["messages"][-1]["content"]


@pytest.mark.parametrize(
    "command",
    [
        ["run", "clipboard.py", "Hi!", "-q"],
        ["run", "clipboard.py", "Hi!", "--json"],
        ["call", "clipboard.py", "copy"],
        ["call", "clipboard.py", "fail"],
        ["logs", "--json"],
    ],
    ids=" ".join,
)
def test_control_characters(
    files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    """A model or tool cannot make the terminal write to the clipboard; a pipe gets what they wrote."""
    write(
        files / "clipboard.py",
        r"""
        from toolkit import Runner, ToolError, tool
        from toolkit.testing import ScriptedModel

        TEXT = "\x1b]52;c;YQ==\x07\x9b2J\u202e"

        @tool
        def copy() -> str:
            "Copy a text."
            return TEXT

        @tool
        def fail() -> str:
            "Fail."
            raise ToolError(TEXT)

        runner = Runner([copy, fail], model=ScriptedModel([f"{TEXT} one\r\ntwo"]))
        """,
    )
    monkeypatch.setenv("TOOLKIT_SESSIONS", str(files / "sessions.db"))
    main(["run", "clipboard.py", "Hi!"])
    in_pipe = capsys.readouterr().out
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    main(command)
    printed = "".join(capsys.readouterr())

    assert "\x1b]52;c;YQ==\x07\x9b2J\u202e one" in in_pipe
    assert "52;c;YQ==" in printed
    assert not {*"\x1b\x07\x9b\u202e\r"}.intersection(printed)


@pytest.mark.real_model
@pytest.mark.slow
def test_quiet_with_the_fallback(files: Path) -> None:
    """With --quiet the embedded model does not say that it answers."""
    command = [sys.executable, "-m", "toolkit", "run", "tools.py", "Hello.", "-q"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)

    assert (True, "") == (bool(ran.stdout), ran.stderr)


def test_prompt_in_several_words(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A prompt of several arguments, or a tool's name before it, is refused with what to write."""
    assert 2 == main(["run", "tools.py", "get_weather", "Jakarta"])

    assert capsys.readouterr().err.endswith(
        "Invalid value for PROMPT: write it in quotes. To call one tool: toolkit call tools.py TOOL\n"
    )


def test_attachments(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Files that are attached to a prompt are sent with it."""
    write(files / "note.txt", "Walls are blue.")
    (files / "plan.pdf").write_bytes(b"%PDF-1.7")
    with FakeServer([reply.text("Blue.")]) as server:
        options = ["-a", "note.txt", "--attach", "plan.pdf", "--base-url", server.base_url, "-m", "m"]
        assert 0 == main(["run", "tools.py", "Which colour?", *options])

    text, plan = server.requests[0].body["messages"][-1]["content"]
    assert "Which colour?\n[file note.txt]\nWalls are blue." == text["text"]
    assert "plan.pdf" == plan["file"]["filename"]


def test_attachment_from_a_pipe(
    files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is piped in is attached by `-a -`; in a terminal that is refused."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"+ green")))
    with FakeServer([reply.text("Good.")]) as server:
        assert 0 == main(["run", "tools.py", "Review.", "-a", "-", "--base-url", server.base_url, "-m", "m"])
    assert "Review.\n[file stdin]\n+ green" == server.requests[0].body["messages"][-1]["content"]

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))  # a new process
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    assert 2 == main(["run", "tools.py", "Review.", "-a", "-", "-m", "m"])
    assert "pipe a file in, or name one" in capsys.readouterr().err


def test_settings_of_a_request(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Keys of the request are numbers where they are JSON, and else texts; a model may call the named tools alone."""
    with FakeServer([reply.calls(("delete_book", {"title": "Dune"})), reply.text("No.")]) as server:
        options = ["-o", "temperature=0.5", "-o", "user=anna", "-T", "get_weather", "--base-url", server.base_url]
        assert 0 == main(["run", "tools.py", "Delete Dune.", "--approve", "none", *options, "-m", "m"])

    body = server.requests[0].body
    assert (0.5, "anna") == (body["temperature"], body["user"])
    assert ["get_weather"] == [each["function"]["name"] for each in body["tools"]]
    assert "is gone" not in capsys.readouterr().err


SCHEMA = json.dumps({"type": "object", "properties": {"degrees": {"type": "integer"}}, "required": ["degrees"]})


@pytest.mark.parametrize("schema", ["schema.json", SCHEMA, "degrees : int"], ids=["file", "text", "fields"])
def test_answer_of_a_schema(files: Path, capsys: pytest.CaptureFixture[str], schema: str) -> None:
    """With a schema, from a file, as a text or as fields, the answer is JSON that fits it."""
    write(files / "schema.json", SCHEMA)
    with FakeServer([reply.text('{"degrees": "warm"}'), reply.text('{ "degrees":21 }')]) as server:
        options = ["--schema", schema, "--base-url", server.base_url, "-m", "m"]
        assert 0 == main(["run", "tools.py", "Weather?", *options])

    assert '{"degrees": 21}\n' == capsys.readouterr().out


def test_schema_of_fields(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Fields with their types are a schema, in which all are required."""
    with FakeServer([reply.text('{"name": "Ann", "scores": [[1]]}')]) as server:
        options = ["--schema", "name:str, scores: list[list[float]]", "--base-url", server.base_url, "-m", "m"]
        assert 0 == main(["run", "tools.py", "Who?", *options])
    sent = server.requests[0].body["response_format"]["json_schema"]["schema"]

    numbers = {"type": "array", "items": {"type": "number"}}
    expected = {"name": {"type": "string"}, "scores": {"type": "array", "items": numbers}}
    assert (expected, [*expected]) == (sent["properties"], sent["required"])


def test_json_of_a_run_that_fails(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With --json the last line of a run that fails is the error."""
    with FakeServer([reply.error(400, "No such model.")]) as server:
        assert 1 == main(["run", "tools.py", "Weather?", "--json", "--base-url", server.base_url, "-m", "m"])

    last = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert ("error", "ModelError") == (last["type"], last["exception"])
    assert "No such model." in last["message"]


def test_json_of_an_answer_of_a_schema(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With --json and a schema the output of the last event is JSON, too."""
    with FakeServer([reply.text('{"wet": true}')]) as server:
        schema = '{"type": "object", "properties": {"wet": {"type": "boolean"}}, "required": ["wet"]}'
        options = ["--schema", schema, "--json", "--base-url", server.base_url, "-m", "m"]
        assert 0 == main(["run", "tools.py", "Weather?", *options])

    last = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert {"wet": True} == json.loads(last["output"])


def test_run_as_json(files: Path, server: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    """With --json each line is an event; the last one has the answer."""
    assert 0 == main(["run", "tools.py", "Weather?", "--json", "--base-url", server.base_url, "-m", "m"])
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    assert ("runStarted", "runFinished") == (events[0]["type"], events[-1]["type"])
    assert "It is warm." == events[-1]["output"]


def test_run_without_an_answer(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run that ends without an answer has exit code 3, and says why in a sentence; its last text is printed once."""
    calls = reply.calls(("get_weather", {"city": "A"}))
    with FakeServer([calls, reply.text("I was stopped."), reply.text("Cut", finish_reason="length")]) as server:
        options = ["--base-url", server.base_url, "-m", "m"]
        assert 3 == main(["run", "tools.py", "Weather?", *options, "--max-turns", "1"])
        limited = capsys.readouterr()
        assert 3 == main(["run", "tools.py", "Weather?", *options])

    assert "Ended" not in limited.err
    assert 1 == "".join(limited).count("I was stopped.")
    assert limited.err.endswith(
        "toolkit: The run stopped after 1 turn: raise --max-turns, or the Runner's max_turns.\n"
    )
    assert capsys.readouterr().err.endswith(": allow it more tokens, such as by -o max_tokens=4000.\n")


def test_run_that_a_tool_ends(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The answer of a Halt is printed, and what it is; the exit code is 3."""
    write(
        files / "shop.py",
        """
        from toolkit import Halt, Runner
        from toolkit.testing import ScriptedModel, call

        def buy() -> str:
            raise Halt("The shop is closed.")

        agent = Runner([buy], model=ScriptedModel([call("buy")]))
        """,
    )
    assert 3 == main(["run", "shop.py", "Buy."])
    printed = capsys.readouterr()

    assert "The shop is closed.\n" == printed.out
    assert printed.err.endswith("toolkit: A tool or a hook ended the run with this answer.\n")


class Terminal(io.StringIO):
    """A standard input that is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("options", "answers", "is_called", "is_asked"),
    [
        ([], "y\n", True, True),
        ([], "n\n", False, True),
        (["--approve", "none"], "", True, False),
        (["--approve", "all"], "y\n", True, True),
    ],
)
def test_approval(
    files: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    options: list[str],
    answers: str,
    is_called: bool,
    is_asked: bool,
) -> None:
    """A call that changes something is asked about at the terminal, on standard error."""
    monkeypatch.setattr(sys, "stdin", Terminal(answers))
    with FakeServer([reply.calls(("delete_book", {"title": "Dune"})), reply.text("Done.")]) as server:
        assert 0 == main(["run", "tools.py", "Delete", *options, "--base-url", server.base_url, "-m", "m"])
    captured = capsys.readouterr()

    assert "Done.\n" == captured.out
    assert is_called is ("Result    Dune is gone" in captured.err)
    assert is_asked is ("The model wants to call delete_book" in captured.err)


def test_approval_without_a_terminal(
    files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where there is no terminal, a call that changes something is refused."""
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    with FakeServer([reply.calls(("delete_book", {"title": "Dune"})), reply.text("Done.")]) as server:
        assert 0 == main(["run", "tools.py", "Delete", "--base-url", server.base_url, "-m", "m"])
    assert "There is no terminal to ask at; --approve none runs such calls unasked." in capsys.readouterr().err


def test_chat(files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each line continues the conversation; empty lines are skipped, and the end of the input ends it."""
    monkeypatch.setattr(sys, "stdin", Terminal("Weather?\n\nDelete Dune.\ny\n"))
    script = [
        reply.calls(("get_weather", {"city": "Jakarta"})),
        reply.text("It is warm."),
        reply.calls(("delete_book", {"title": "Dune"})),
        reply.text("Done."),
    ]

    with FakeServer(script) as server:
        assert 0 == main(["chat", "tools.py", "--base-url", server.base_url, "-m", "m"])
    shown = capsys.readouterr().out
    assert shown.startswith("m, with get_weather, delete_book, collect, halve. Ctrl-D ends the conversation.\n> ")
    assert "Answer    It is warm.\n" in shown
    assert "Result    Dune is gone\n" in shown
    roles = [message["role"] for message in server.requests[-1].body["messages"]]
    assert ["user", "assistant", "tool", "assistant", "user", "assistant", "tool"] == roles


def test_chat_after_a_failure(files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A failing server does not end the conversation."""
    monkeypatch.setattr(sys, "stdin", Terminal("Hi\nAgain\nexit\nnever sent"))
    with FakeServer([reply.error(400, "No."), reply.text("Hello.")]) as server:
        assert 0 == main(["chat", "tools.py", "--base-url", server.base_url, "-m", "m"])
        assert 2 == len(server.requests)
    assert "Answer    Hello.\n" in capsys.readouterr().out


def test_chat_with_an_interrupted_line(
    files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C at the prompt discards the line, and the chat goes on."""
    lines: Iterator[str | BaseException] = iter([KeyboardInterrupt(), "Hi", EOFError()])

    def read(_: str) -> str:
        if isinstance(line := next(lines), BaseException):
            raise line
        return line

    monkeypatch.setattr("builtins.input", read)
    with FakeServer([reply.text("Hello.")]) as server:
        assert 0 == main(["chat", "tools.py", "--base-url", server.base_url, "-m", "m"])
    assert "Answer    Hello.\n" in capsys.readouterr().out


def test_toolbox_or_runner_of_a_file(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file's Runner or Toolbox comes before its single tools; several have to be chosen from."""
    own = "from tools import Runner, Toolbox, get_weather, delete_book\n"
    write(files / "box.py", f"{own}box = Toolbox([delete_book])\n")
    write(files / "boxes.py", f"{own}one = Toolbox([delete_book])\ntwo = Toolbox([get_weather])\n")
    write(files / "runner.py", f"{own}box = Toolbox([])\nagent = Runner([delete_book], model='m')\n")

    assert 0 == main(["list", "box.py"])
    assert 0 == main(["list", "boxes.py:one"])
    assert 0 == main(["list", "runner.py"])
    assert 0 == main(["list", "boxes:one"])
    assert 0 == main(["list", "tools:delete_book"])
    assert ["delete_book(title: str) -> str  [destructive]", "    Delete a book."] * 5 == (
        capsys.readouterr().out.splitlines()
    )
    assert 1 == main(["list", "boxes.py"])
    assert "boxes.py has several Toolbox objects. Choose one: boxes.py:one, boxes.py:two." in capsys.readouterr().err
    assert 1 == main(["run", "runner.py", "Hi", "-m", "other"])
    error = capsys.readouterr().err
    assert "--model cannot change the Runner in runner.py. Set it there." in error
    assert error.endswith("Or name its toolbox: add :box to the file's name here.\n")
    write(files / "alone.py", f"{own}agent = Runner([delete_book], model='m')\n")
    assert 1 == main(["run", "alone.py", "Hi", "-i", "Be brief."])
    assert capsys.readouterr().err.endswith(
        "Or write box = Toolbox([...]) there, and add :box to the file's name here.\n"
    )


def test_runner_of_a_file(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file's Runner runs as it is."""
    write(
        files / "agent.py",
        """
        from toolkit import Runner
        from toolkit.testing import ScriptedModel, call
        from tools import get_weather

        agent = Runner([get_weather], model=ScriptedModel([call("get_weather", city="Rome"), "Warm."]))
        """,
    )

    assert 0 == main(["run", "agent.py", "Weather?"])
    assert "Warm.\n" == capsys.readouterr().out


def test_file_without_tools(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The way out is named: the decorator, --all with the functions that it takes, or an object of a class."""
    write(files / "plain.py", "from os import getcwd\n\ndef double(x: int) -> int:\n    return 2 * x\n")
    write(files / "empty.py", "")
    shelf = "class Shelf:\n    @tool\n    def put(self) -> None: ...\n"
    write(files / "shelf.py", f"from toolkit import Runner, tool\n\n{shelf}")

    assert 1 == main(["list", "plain.py"])
    assert 1 == main(["list", "empty.py", "--all"])
    assert 1 == main(["list", "shelf.py"])
    assert capsys.readouterr().err == (
        "toolkit: plain.py has no tools. Decorate a function with @tool, or pass --all to take its functions as "
        "they are: double.\ntoolkit: empty.py has no tools. Decorate a function with @tool.\n"
        "toolkit: shelf.py has no tools. Decorate a function with @tool, or make an object for the tools of Shelf: "
        "shelf = Shelf(...).\n"
    )
    assert 0 == main(["call", "plain.py", "--all", "double", "--x", "4"])
    assert "8\n" == capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "last"),
    [
        ("import toolkit\n1 / 0\n", "ZeroDivisionError: division by zero"),
        ("def f(:\n", "SyntaxError: "),
    ],
)
def test_file_that_fails(files: Path, capsys: pytest.CaptureFixture[str], text: str, last: str) -> None:
    """The error of a file is shown from the file's own lines on."""
    write(files / "broken.py", text)

    assert 1 == main(["list", "broken.py"])
    error = capsys.readouterr().err
    assert last in error.splitlines()[-1]
    assert "broken.py" in error
    assert "toolkit/cli" not in error.replace(os.sep, "/")


def test_without_the_extra(files: Path) -> None:
    """Without Typer the command says what to install."""
    program = (
        "import sys; sys.modules['typer'] = None; import importlib.util as u; find = u.find_spec;"
        "u.find_spec = lambda name, *a: None if name == 'typer' else find(name, *a);"
        "from toolkit.cli import main; sys.exit(main(['list', 'tools.py']))"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert 1 == ran.returncode
    assert 'pip install "function-toolkit[cli]"' in ran.stderr


def test_tool_with_deps(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A tool that needs something of the application is refused in one line, before anything runs."""
    head = "from toolkit import ToolContext, tool\n\n\n@tool\n"
    text = f"{head}def find(title: str, context: ToolContext[dict]) -> str:\n    return title\n"
    (files / "shelf.py").write_text(text, encoding="utf-8")

    assert [1, 1, 1] == [
        main(["run", "shelf.py", "Find Dune."]),
        main(["chat", "shelf.py"]),
        main(["call", "shelf.py", "find", "--title", "Dune"]),
    ]
    line = "toolkit: shelf.find() takes a ToolContext[dict], and there are no deps: write deps = ... in shelf.py."
    assert [line] * 3 == capsys.readouterr().err.splitlines()


def test_undecorated_function(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Who calls a function that is not decorated learns of --all."""
    assert 1 == main(["call", "tools.py", "double", "--x", "2"])
    assert "With --all a file's undecorated functions are tools, too." in capsys.readouterr().err


AGENT = """
from toolkit import Runner, SQLiteRuns, tool
from toolkit.approvers import defer
from toolkit.testing import ScriptedModel, call

@tool(approve=True)
def pay(amount: int) -> str:
    "Pay."
    return f"paid {amount}"

def answer(request):
    results = [message.text for message in request.messages if getattr(message, "call_id", "")]
    return results[-1] if results else call("pay", amount=5)

agent = Runner([pay], model=ScriptedModel(answer), approve=defer, checkpoint=SQLiteRuns("runs.db"))
"""


def test_resume(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Runs that have not ended are listed; one goes on where it was, and a person decides on what waits."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "agent.py").write_text(AGENT, encoding="utf-8")
    codes = [main(["run", "agent.py", "Pay."]), main(["resume", "agent.py"])]
    run_id, phase = (out := capsys.readouterr().out).split()
    assert f"{run_id}  {phase}\n" == out  # and no line for the answer that is not there
    codes += [main(["resume", "agent.py", run_id])]  # without a terminal the call stays deferred
    waits = f'toolkit: Waiting for approval: pay({{"amount": 5}}). Decide with: toolkit resume agent.py {run_id}\n'
    assert capsys.readouterr().err.endswith(waits)
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    monkeypatch.setattr("builtins.input", lambda: "y")
    codes += [main(["resume", "agent.py", run_id, "-q"])]

    assert ("paused", [3, 0, 3, 0], "paid 5\n") == (phase, codes, capsys.readouterr().out)
    assert [1, 0] == [main(["resume", "agent.py", "nowhere"]), main(["resume", "agent.py"])]
    assert (
        "toolkit: No run 'nowhere' can be continued. These can: none.\ntoolkit: every saved run has ended.\n"
        == capsys.readouterr().err
    )


def test_deps_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The tools, and their approvers, get the variable `deps` of the file."""
    monkeypatch.chdir(tmp_path)
    own = AGENT.replace("amount: int", "amount: int, context: ToolContext[dict]").replace(
        "paid {amount}", "paid {amount} {context.deps['currency']}"
    )
    deps = "from toolkit import ToolContext\ndeps = {'currency': 'EUR'}\n"
    (tmp_path / "agent.py").write_text(deps + own, encoding="utf-8")
    codes = [main(["run", "agent.py", "Pay."]), main(["resume", "agent.py"])]
    run_id = capsys.readouterr().out.split()[0]
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    monkeypatch.setattr("builtins.input", lambda: "y")
    codes += [main(["resume", "agent.py", run_id, "-q"])]
    codes += [main(["call", "agent.py", "pay", "--amount", "7", "--yes"])]

    assert ([3, 0, 0, 0], "paid 5 EUR\npaid 7 EUR\n") == (codes, capsys.readouterr().out)


def test_paused_run_that_is_not_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run that waits, of a Runner without a checkpoint, says how to get one."""
    monkeypatch.chdir(tmp_path)
    own = AGENT.replace(', checkpoint=SQLiteRuns("runs.db")', "")
    (tmp_path / "own.py").write_text(own, encoding="utf-8")

    assert 3 == main(["run", "own.py", "Pay."])
    assert 'write Runner(..., checkpoint=SQLiteRuns("runs.db")) in own.py' in capsys.readouterr().err


def test_resume_without_saved_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file whose runs are not saved is an error that says what to write."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tools.py").write_text("from toolkit import Runner\nagent = Runner([abs])\n", encoding="utf-8")

    assert 1 == main(["resume", "tools.py"])
    assert "checkpoint=SQLiteRuns" in capsys.readouterr().err
