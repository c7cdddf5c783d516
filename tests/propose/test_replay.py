"""Recorded replies: from a folder of files, and from a study's journal."""

from __future__ import annotations

import gzip
import json
import threading
from pathlib import Path

import pytest

from cutlass_tuner.errors import UserError
from cutlass_tuner.events import Answered
from cutlass_tuner.ideas import Answer, Usage
from cutlass_tuner.options import LlmOptions
from cutlass_tuner.propose.replay import ReplayTransport
from cutlass_tuner.propose.request import MAX_REPLY_BYTES, Request, as_markdown
from cutlass_tuner.propose.transport import open_transport
from cutlass_tuner.records import Failure

REQUEST = Request(round=1, system="You tune.", user="Shapes.", schema={"type": "object"})


def texts(replay: ReplayTransport) -> list[str]:
    """All that is left."""
    found = []
    while (answer := replay.ask(REQUEST, threading.Event())) is not None:
        assert answer.failure is None
        found.append(answer.text)
    return found


def write(folder: Path, **files: str) -> Path:
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", "-").replace("_", ".")).write_text(text)
    return folder


def test_one_reply_a_round_in_natural_order(tmp_path: Path) -> None:
    write(tmp_path, **{"10_json": "ten", "2_txt": "two", "1_md": "one\n```\n", "2b_json": "between"})
    assert texts(ReplayTransport(tmp_path, 0)) == ["one\n```\n", "two", "between", "ten"]


def test_goes_on_after_what_is_done(tmp_path: Path) -> None:
    write(tmp_path, **{"1_json": "one", "2_json": "two", "3_json": "three"})
    replay = ReplayTransport(tmp_path, 2)
    assert replay.introduce() == (
        f"language model: 3 recorded replies in {tmp_path}, 2 of them used already; no model is asked"
    )
    assert texts(replay) == ["three"]
    assert texts(ReplayTransport(tmp_path, 7)) == []


def test_what_else_lies_in_the_folder(tmp_path: Path) -> None:
    """A folder of manual questions and answers can be replayed as it is."""
    write(tmp_path, **{"01__request_md": "asked", "01__reply_json": "answered"})
    write(tmp_path, README_md="how these came about", model_txt="claude-opus-5-5\nmore", notes_csv="1,2")
    (tmp_path / "folder.json").mkdir()
    replay = ReplayTransport(tmp_path, 0)
    answer = replay.ask(REQUEST, threading.Event())
    assert answer == Answer(text="answered", model="claude-opus-5-5")
    assert texts(replay) == []


def test_the_model_is_called_replay_where_nobody_says(tmp_path: Path) -> None:
    answer = ReplayTransport(write(tmp_path, **{"1_json": "{}"}), 0).ask(REQUEST, threading.Event())
    assert answer is not None
    assert (answer.model, answer.usage) == ("replay", None)


def test_a_bad_file_costs_its_round_only(tmp_path: Path) -> None:
    write(tmp_path, **{"1_json": "x" * (MAX_REPLY_BYTES + 1), "3_json": "", "4_json": "x" * MAX_REPLY_BYTES})
    (tmp_path / "2.json").write_bytes(b"\xff")
    replay = ReplayTransport(tmp_path, 0)
    (tmp_path / "3.json").unlink()
    reasons = []
    for _ in range(3):
        answer = replay.ask(REQUEST, threading.Event())
        assert answer is not None and answer.failure is not None
        assert answer.failure.stage == "propose" and not answer.failure.lasting
        reasons.append(answer.failure.reason)
    assert "1.json cannot be used: 1048577 bytes" in reasons[0]
    assert "2.json cannot be used: not UTF-8" in reasons[1]
    assert "3.json cannot be used: No such file" in reasons[2]
    assert texts(replay) == ["x" * MAX_REPLY_BYTES]


def test_cancelled(tmp_path: Path) -> None:
    cancelled = threading.Event()
    cancelled.set()
    assert ReplayTransport(write(tmp_path, **{"1_json": "{}"}), 0).ask(REQUEST, cancelled) is None


@pytest.mark.parametrize("study", [False, True])
def test_no_replies(tmp_path: Path, study: bool) -> None:
    with pytest.raises(UserError, match="is no folder"):
        open_transport(LlmOptions(llm=f"replay:{tmp_path / 'none'}"), 0)
    write(tmp_path, notes_csv="", **({"study_json": "{}"} if study else {}))
    with pytest.raises(UserError, match="holds no replies"):
        open_transport(LlmOptions(llm=f"replay:{tmp_path}"), 0)


def answered(text: str, model: str = "claude-opus-5-5", failure: Failure | None = None) -> str:
    usage = Usage(input_tokens=1, output_tokens=1, cost_usd=0.5)
    answer = Answer(text=text, model=model, stop="end_turn", usage=usage, failure=failure)
    return Answered(round=1, transport="anthropic", answer=answer, at_s=1.0).model_dump_json() + "\n"


JOURNAL = (
    '{"event":"asked","round":1,"transport":"manual","prompt":"say \\"answered\\"","prompt_digest":"",'
    '"schema_digest":"","at_s":0}\n'
    '{"event":"of a later version"}\n'
    + answered("first")
    + answered("", failure=Failure(stage="propose", reason="the API was silent"))
    + answered("second", model="")
    + answered("torn")[:-20]
)


@pytest.mark.parametrize("packed", [False, True])
def test_a_studys_answers(tmp_path: Path, packed: bool) -> None:
    """Those that were answers: failures are left out, and so is what a kill cut short."""
    write(tmp_path, study_json="{}", problems_json="[]")
    if packed:
        (tmp_path / "events.jsonl.gz").write_bytes(gzip.compress(JOURNAL.encode()))
    else:
        (tmp_path / "events.jsonl").write_text(JOURNAL)
    replay = open_transport(LlmOptions(llm=f"replay:{tmp_path}"), 0)
    assert replay is not None and replay.name == "replay"
    asked = [replay.ask(REQUEST, threading.Event()) for _ in range(3)]
    assert asked == [
        Answer(text="first", model="claude-opus-5-5", stop="end_turn"),
        Answer(text="second", model="replay", stop="end_turn"),
        None,
    ]


def test_a_damaged_journal(tmp_path: Path) -> None:
    write(tmp_path, study_json="{}")
    (tmp_path / "events.jsonl").write_text(answered("fine") + '{"event":"answered"}\n')
    with pytest.raises(UserError, match=r"events\.jsonl:2 is no event of a study"):
        ReplayTransport(tmp_path, 0)
    (tmp_path / "events.jsonl").unlink()
    (tmp_path / "events.jsonl.gz").write_bytes(gzip.compress(JOURNAL.encode())[:-30])
    with pytest.raises(UserError, match="cannot be read"):
        ReplayTransport(tmp_path, 0)


# --- the request itself


def test_a_request_as_markdown() -> None:
    request = Request(round=2, system="# System\n", user="# User\n", schema={"b": 1, "a": ["x"]})
    assert request.prompt == "# System\n\n# User\n"
    text = as_markdown(request)
    assert text.startswith(request.prompt)
    schema = text.split("```json\n")[1].split("\n```")[0]
    assert json.loads(schema) == request.schema
    assert text.rstrip().endswith("it allows no others.")


def test_digests_name_prompt_and_schema() -> None:
    one = Request(round=1, system="s", user="u", schema={"a": 1, "b": 2})
    same = Request(round=2, system="s", user="u", schema={"b": 2, "a": 1})
    other = Request(round=1, system="s", user="v", schema={"a": 1, "b": 3})
    assert len(one.digest) == len(one.schema_digest) == 16
    assert (one.digest, one.schema_digest) == (same.digest, same.schema_digest)
    assert one.digest != other.digest
    assert one.schema_digest != other.schema_digest
