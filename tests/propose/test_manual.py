"""Questions and answers as files."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cutlass_tuner.errors import UserError
from cutlass_tuner.ideas import Answer
from cutlass_tuner.options import LlmOptions
from cutlass_tuner.propose.manual import ManualTransport
from cutlass_tuner.propose.request import MAX_REPLY_BYTES, Request, as_markdown
from cutlass_tuner.propose.transport import open_transport

REQUEST = Request(round=3, system="You tune.", user="Shapes.", schema={"type": "object"})
POLL_S = 0.05


@contextmanager
def asking(manual: ManualTransport, request: Request = REQUEST) -> Iterator[list[Answer | None]]:
    """A question asked on a thread of its own, whose answer comes into the list. Cancelled at the end."""
    cancelled, answers = threading.Event(), []

    def ask() -> None:
        answers.append(manual.ask(request, cancelled))

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    try:
        yield answers
    finally:
        cancelled.set()
        thread.join(1.0)
        assert not thread.is_alive()


def until(answers: list[Answer | None]) -> Answer | None:
    for _ in range(200):
        if answers:
            return answers[0]
        time.sleep(0.01)
    raise AssertionError("no answer within 2 s")


@pytest.mark.parametrize("suffix", ["json", "txt", "md"])
def test_a_question_is_written_and_its_reply_read(tmp_path: Path, suffix: str) -> None:
    folder = tmp_path / "new" / "replies"
    with asking(ManualTransport(folder, POLL_S)) as answers:
        time.sleep(4 * POLL_S)
        assert (folder / "03-request.md").read_text() == as_markdown(REQUEST)
        assert [path.name for path in folder.iterdir()] == ["03-request.md"]
        assert not answers
        (folder / f"03-reply.{suffix}").write_text("```json\n{}\n```")
        assert until(answers) == Answer(text="```json\n{}\n```", model="manual")


def test_a_reply_may_be_there_first_and_name_its_model(tmp_path: Path) -> None:
    (tmp_path / "03-reply.json").write_text("{}")
    (tmp_path / "02-reply.json").write_text("of another round")
    (tmp_path / "model.txt").write_text("a model\n")
    with asking(ManualTransport(tmp_path, POLL_S)) as answers:
        assert until(answers) == Answer(text="{}", model="a model")


def test_a_reply_that_is_still_being_written_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "03-reply.json"
    path.touch()
    with asking(ManualTransport(tmp_path, 0.3)) as answers:
        time.sleep(0.7)
        assert not answers, "an empty file is no reply"
        with path.open("w") as file:
            for _ in range(30):
                file.write("x" * 100)
                file.flush()
                time.sleep(0.02)
                assert not answers
        answer = until(answers)
    assert answer is not None
    assert answer.text == "x" * 3000


def test_cancelled(tmp_path: Path) -> None:
    with asking(ManualTransport(tmp_path)) as answers:
        time.sleep(0.1)
        start = time.monotonic()
    assert answers == [None]
    assert time.monotonic() - start < 0.3, "it does not wait for the next poll"


def test_a_reply_that_is_too_long(tmp_path: Path) -> None:
    (tmp_path / "03-reply.json").write_text("x" * (MAX_REPLY_BYTES + 1))
    with asking(ManualTransport(tmp_path, POLL_S)) as answers:
        answer = until(answers)
    assert answer is not None and answer.failure is not None
    assert not answer.failure.lasting
    assert "03-reply.json cannot be used" in answer.failure.reason


def test_a_question_that_cannot_be_written(tmp_path: Path) -> None:
    manual = ManualTransport(tmp_path, POLL_S)
    (tmp_path / "03-request.md").mkdir()
    with asking(manual) as answers:
        answer = until(answers)
    assert answer is not None and answer.failure is not None
    assert answer.failure.reason.startswith("03-request.md cannot be written")


def test_a_folder_that_cannot_be_written_to(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for folder in (tmp_path / "file", tmp_path / "file" / "below", Path("/proc/cutlass-tuner")):
        with pytest.raises(UserError, match=f"--replies {folder}"):
            open_transport(LlmOptions(llm="manual", replies=folder), 0)


def test_introduce(tmp_path: Path) -> None:
    manual = open_transport(LlmOptions(llm="manual", replies=tmp_path), 0)
    assert manual is not None and manual.name == "manual"
    assert f"{tmp_path}/NN-request.md" in manual.introduce()
