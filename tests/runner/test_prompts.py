"""Prompts of texts, pictures and files: what is sent of them, and what is refused before any request."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import PIL.Image
import pytest
from matplotlib.figure import Figure

from tests.servers import FakeServer
from toolkit import File, Image, Runner, RunState
from toolkit.models import UserMessage
from toolkit.testing import ScriptedModel, reply

PNG = b"\x89PNG"


def picture(kind: str = "PNG") -> bytes:
    """Return a small picture as a file of this format."""
    file = io.BytesIO()
    PIL.Image.new("RGB", (4, 4)).save(file, kind)
    return file.getvalue()


def send(*parts: Any) -> UserMessage:
    """Return the message that a model gets for a prompt of these parts."""
    model = ScriptedModel(["I see."])
    Runner(model=model).run([*parts])
    (message,) = model.requests[0].messages
    assert isinstance(message, UserMessage)
    return message


@pytest.mark.parametrize(("kind", "name"), [("PNG", "png"), ("JPEG", "jpeg"), ("GIF", "gif"), ("WEBP", "webp")])
def test_paths_of_pictures(tmp_path: Path, kind: str, name: str) -> None:
    """A path of a picture is sent as an image; its type is that of the content, whatever the file's name."""
    path = tmp_path / "plan.dat"
    path.write_bytes(picture(kind))

    assert UserMessage("What is on it?", (Image(picture(kind), f"image/{name}"),)) == send("What is on it?", path)


def test_paths_of_documents(tmp_path: Path) -> None:
    """A PDF is sent as a file, a text as a part of the message with its name."""
    pdf, text = tmp_path / "report.pdf", tmp_path / "notes.md"
    pdf.write_bytes(b"%PDF-1.7 ...")
    text.write_text("\ufeff# Notes\nGrüße", encoding="utf-8")

    expected = UserMessage("Sum up.\n[file notes.md]\n# Notes\nGrüße", (), (File(b"%PDF-1.7 ...", name="report.pdf"),))

    assert expected == send("Sum up.", pdf, text)


@pytest.mark.parametrize("make", [lambda: PIL.Image.new("RGB", (4, 4)), lambda: Figure((1, 1))])
def test_pictures_of_other_packages(make: Callable[[], Any]) -> None:
    """A picture of PIL and a figure of Matplotlib are drawn, as in results of tools."""
    message = send("What is on it?", make(), Image(PNG), "Look well.")

    assert "What is on it?\nLook well." == message.text
    assert [True, False] == [image.data.startswith(b"\x89PNG\r\n") for image in message.images]


def test_on_the_wire() -> None:
    """A server is sent the text first, then the picture."""
    with FakeServer([reply.text("A plan.")]) as server:
        Runner(model="fake", base_url=server.base_url).run(["What is this?", Image(PNG)])

    (message,) = server.requests[0].body["messages"]
    assert ["text", "image_url"] == [part["type"] for part in message["content"]]


def test_every_way_in(tmp_path: Path) -> None:
    """Steering and follow-ups take what a prompt takes; so does a prompt a UserMessage; a state holds it all."""
    model = ScriptedModel(["One.", "Two."])
    runner = Runner(model=model)
    with runner.stream(UserMessage("Go.", (Image(PNG),))) as events:
        next(events)
        events.follow_up(["And this?", Image(b"2")])
        list(events)

    first, _, second, _ = RunState.from_json(events.result.state.to_json()).messages
    assert (UserMessage("Go.", (Image(PNG),)), UserMessage("And this?", (Image(b"2"),))) == (first, second)


def refuse(parts: Any, kind: type[Exception]) -> str:
    """Return the error of a prompt, for which no request is made."""
    model = ScriptedModel([])
    with pytest.raises(kind) as error:
        Runner(model=model).run(parts)
    assert not model.requests
    return str(error.value)


def test_files_that_cannot_be_sent(tmp_path: Path) -> None:
    """What is wrong with a file is reported before any request: missing, a directory, too large, another type."""
    archive, pipe, large, huge = (tmp_path / name for name in ("a.zip", "pipe", "large.csv", "huge.png"))
    archive.write_bytes(b"PK\x03\x04\0\0")
    large.write_text("x" * (2**20 + 1))
    huge.touch()
    os.truncate(huge, 20 * 2**20 + 1)
    os.mkfifo(pipe)

    for path in (tmp_path / "missing.png", tmp_path, pipe):
        assert f"{str(path)!r} is not a file; the current directory is" in refuse(["What?", path], FileNotFoundError)
    assert "is neither an image (PNG, JPEG, GIF, WebP), a PDF, nor text" in refuse(["What?", archive], ValueError)
    assert "large.csv is text of more than 1 MiB" in refuse(["What?", large], ValueError)
    assert "huge.png is larger than 20 MiB" in refuse(["What?", huge], ValueError)


@pytest.mark.parametrize(
    ("parts", "fault"),
    [
        (["What?", np.zeros((4, 4, 3), "uint8")], "of type ndarray"),
        (["What?", b"\x89PNG"], "of type bytes"),
        ([{"role": "user", "content": "Hi"}], r"as messages=\[...\]"),
        (5, "A prompt cannot hold 5 of type int"),
    ],
)
def test_parts_that_cannot_be_sent(parts: Any, fault: str) -> None:
    """A part of another type is refused, with what there is instead."""
    with pytest.raises(TypeError, match=fault):
        Runner(model=ScriptedModel([])).run(parts)


def test_tables() -> None:
    """A table is sent as CSV, beside other parts or alone; one that is too long is refused."""
    table = pd.DataFrame({"n": [1, 2]})
    shown = "DataFrame, 2 rows, 1 column: n int64\nn\n1\n2\n"

    assert ["What?\n" + shown, shown] == [send(*parts).text for parts in (["What?", table], [table])]
    assert "send a part of it" in refuse([pd.DataFrame({"n": ["x" * 2**20]})], ValueError)


def test_part_alone(tmp_path: Path) -> None:
    """A path or a picture alone is a list of one, in a later message of the user, too."""
    file, picture = tmp_path / "plan.md", Image(b"pixels")
    file.write_text("Blue walls.")
    model = ScriptedModel(["A plan.", "A dot.", "A picture."])
    prompts: list[Any] = [file, picture, PIL.Image.new("RGB", (1, 1))]
    for prompt in prompts:
        Runner(model=model).run(prompt)
    sent = [request.messages[0] for request in model.requests]

    assert [UserMessage("[file plan.md]\nBlue walls."), UserMessage("", (picture,))] == sent[:2]
    assert isinstance(sent[2], UserMessage) and sent[2].images[0].data.startswith(b"\x89PNG")


def test_empty_prompt() -> None:
    """An empty list is nothing to answer."""
    assert "nothing to answer" in refuse([], ValueError)
