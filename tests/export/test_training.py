"""The training export: what its lines say, and that nothing of the machine or its credentials is in them."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from cutlass_tuner import pipeline
from cutlass_tuner.events import Answered, Asked
from cutlass_tuner.export import training
from cutlass_tuner.export.training_lines import ConfigLine, ExchangeLine, IdeaLine, RejectedLine
from cutlass_tuner.ideas import Answer, Condition, Coupling, Fared, Idea, Rejection, Suggestion, Usage
from cutlass_tuner.options import ExportOptions
from cutlass_tuner.records import Failure, Measurement, Proposal
from cutlass_tuner.study import Study

sys.path.append(str(Path(__file__).parents[1]))  # also where this file runs alone
from study.events import (
    P1,
    P2,
    build_failed,
    built,
    header,
    kernel,
    launch,
    measured,
    proposal,
    run_failed,
    told,
)

LINES: TypeAdapter[ExchangeLine | IdeaLine | RejectedLine | ConfigLine] = TypeAdapter(
    ExchangeLine | IdeaLine | RejectedLine | ConfigLine
)


@dataclass(frozen=True)
class Best:
    measurement: Measurement
    speedup: float


def idea(name: str = "i1", parent: str = "", **fields: Any) -> Idea:
    values = {
        "hypothesis": "fewer waves",
        "bottleneck": "wave",
        "targets": (P1.key, P2.key),
        "expected": 1.05,
        "family": "tma_ws",
        "suggestions": (
            Suggestion(kernel=kernel(64), launches=(launch(8),)),
            Suggestion(kernel=kernel(128), launches=(launch(2), launch(4))),
        ),
        "narrowed": {"tile_m": (128, 256)},
        "couplings": (
            Coupling(when=Condition(knob="a", one_of=(1,)), then=Condition(knob="b", one_of=(True,))),
        ),
    }
    return Idea.model_validate({"id": name, "parent": parent, **values, **fields})


def asked(number: int = 1, prompt: str = "Propose.", at_s: float = 1.0) -> Asked:
    return Asked(
        round=number,
        transport="anthropic",
        prompt=prompt,
        prompt_digest="p1",
        schema_digest="s1",
        at_s=at_s,
    )


def answered(number: int = 1, at_s: float = 2.0, **fields: Any) -> Answered:
    answer = Answer(
        text="{}",
        model="some-model",
        stop="end_turn",
        usage=Usage(input_tokens=10, output_tokens=5, cost_usd=0.5),
    )
    values = {"transport": "anthropic", "answer": answer, "ideas": (idea(),), **fields}
    return Answered.model_validate({"round": number, "at_s": at_s, **values})


FARED = Fared(
    idea=idea(), fate="searching", built=2, failed=1, speedup={P1.key: 1.25}, leads=(P1.key,), achieved=None
)


def log(**changes: Any) -> training.SearchLog:
    """An idea's kernel, right on one problem and wrong on another; one that did not build; the sampler's."""
    right = measured(128, 1, on=P1, us=(8.0, 8.0), reference_us=(10.0, 10.0)).measurement
    slower = measured(128, 2, on=P1).measurement
    wrong = measured(128, 1, on=P2, passed=False).measurement
    others = measured(256, 1, on=P1, us=(5.0,), reference_us=(10.0,)).measurement
    ideas = {kernel(128).key: Proposal(kernel=kernel(128), source="llm", idea="i1")}
    base = training.SearchLog(
        header=header(),
        asked=(asked(),),
        answered=(
            answered(
                dropped=("i0",), rejected=(Rejection(idea="i1", what="tile_m=3", reason="tile_m is 3"),)
            ),
        ),
        fared=(FARED,),
        proposals={**ideas, kernel(64).key: proposal(64), kernel(256).key: proposal(256)},
        builds={kernel(tile).key: built(tile).build for tile in (128, 256)},
        failed={kernel(64).key: build_failed(64)},
        measured={P1.key: (right, slower, others), P2.key: (wrong,)},
        run_failures=(run_failed(128, None, P2),),
        rankings={P1.key: (Best(others, 2.0), Best(right, 1.25), Best(slower, 1.0)), P2.key: ()},
    )
    return replace(base, **changes)


def parsed(of: training.SearchLog) -> list[dict[str, Any]]:
    text = training.to_jsonl(of)
    assert text.endswith("\n")
    lines: list[dict[str, Any]] = [json.loads(line) for line in text.removesuffix("\n").split("\n")]
    for line in lines:
        LINES.validate_python(line)
    return lines


def only(lines: Sequence[dict[str, Any]], kind: str) -> dict[str, Any]:
    (found,) = (line for line in lines if line["kind"] == kind)
    return found


def test_rounds_come_first_then_kernels_in_the_order_they_were_asked_for() -> None:
    lines = parsed(log())
    assert [line["kind"] for line in lines] == ["exchange", "rejected", "idea", "config", "config", "config"]
    assert [line["kernel"]["tile_m"] for line in lines[3:]] == [128, 64, 256]
    assert training.to_jsonl(log()) == training.to_jsonl(log())


def test_every_line_says_what_it_is_of_and_nothing_else_of_the_machine() -> None:
    for line in parsed(log()):
        assert (line["format"], line["study"], line["op"], line["gpu"]) == (1, "s", "hgemm", "NVIDIA H200")
        assert (line["arch"], line["sm_count"], line["cuda"], line["cutlass"]) == (
            "sm_90a",
            132,
            "13.0",
            "4.2.0",
        )
        assert (line["l2"], line["simulated"]) == ("cold", "")
        assert not {"driver", "compiler", "torch", "flags", "environment", "device"} & line.keys()


def test_a_simulated_study_is_marked_on_every_line() -> None:
    simulated = header().model_copy(update={"simulated": "recorded"})
    assert {line["simulated"] for line in parsed(log(header=simulated))} == {"recorded"}


def test_an_exchange_has_question_answer_and_cost() -> None:
    line = only(parsed(log()), "exchange")
    assert (line["prompt"], line["reply"], line["model"], line["stop"]) == (
        "Propose.",
        "{}",
        "some-model",
        "end_turn",
    )
    assert (line["prompt_digest"], line["schema_digest"], line["transport"]) == ("p1", "s1", "anthropic")
    assert line["usage"] == {"input_tokens": 10, "output_tokens": 5, "cost_usd": 0.5}
    assert (line["ideas"], line["dropped"], line["rejected"], line["failure"]) == (["i1"], ["i0"], 1, None)


def test_a_question_asked_again_is_that_before_its_answer() -> None:
    """A run that was cut short asks its round again."""
    questions = (
        asked(prompt="first", at_s=1.0),
        asked(prompt="again", at_s=5.0),
        asked(2, "other", at_s=7.0),
    )
    assert only(parsed(log(asked=questions, answered=(answered(at_s=6.0),))), "exchange")["prompt"] == "again"
    assert only(parsed(log(asked=questions, answered=(answered(at_s=2.0),))), "exchange")["prompt"] == "first"
    assert only(parsed(log(asked=())), "exchange")["prompt"] == ""


def test_a_failed_answer_says_why() -> None:
    failed = Answer(failure=Failure(stage="propose", reason="429: rate limited", detail="later"))
    line = only(parsed(log(answered=(answered(answer=failed, ideas=()),))), "exchange")
    assert line["failure"] == {"stage": "propose", "reason": "429: rate limited", "detail": "later"}


def test_an_idea_has_its_words_its_space_and_how_it_fared() -> None:
    line = only(parsed(log()), "idea")
    assert (line["round"], line["id"], line["parent"], line["hypothesis"]) == (1, "i1", "", "fewer waves")
    assert (line["bottleneck"], line["targets"], line["expected"]) == ("wave", [P1.key, P2.key], 1.05)
    assert (line["fate"], line["built"], line["failed"], line["achieved"]) == ("searching", 2, 1, None)
    assert (line["speedup"], line["leads"]) == ({P1.key: 1.25}, [P1.key])
    assert (line["configs"], line["narrowed"]) == (
        [{"tile_m": 64}, {"tile_m": 128}],
        {"tile_m": [128, 256]},
    )
    assert line["couplings"][0]["then"] == {"knob": "b", "one_of": [True]}


def test_a_refusal_says_what_and_why() -> None:
    line = only(parsed(log()), "rejected")
    assert (line["round"], line["idea"], line["what"], line["reason"]) == (1, "i1", "tile_m=3", "tile_m is 3")


def test_an_ideas_kernel_has_its_round_launches_and_result_on_each_problem() -> None:
    line = parsed(log())[3]
    assert (line["source"], line["idea"], line["round"], line["outcome"]) == ("llm", "i1", 1, "built")
    assert line["suggested"] == [{"swizzle": 2}, {"swizzle": 4}]
    assert (line["registers"], line["spill_bytes"], line["smem_bytes"], line["failure"]) == (1, 0, 1, None)
    first, second = line["results"]
    assert (first["problem"], first["launch"], first["speedup"]) == (P1.key, {"swizzle": 1}, 1.25)
    assert (first["reference"], first["samples"], first["launches"]) == ("torch", 2, 2)
    assert (first["wrong"], first["failed"]) == ([], [])
    assert (second["problem"], second["launch"], second["speedup"]) == (P2.key, None, None)
    assert second["wrong"] == [{"launch": {"swizzle": 1}, "reasons": ["wrong"]}]
    assert second["failed"][0]["launch"] is None
    assert second["failed"][0]["failure"]["reason"] == "no answer in 20 s"


def test_a_kernel_that_did_not_build_says_why_and_has_no_figures() -> None:
    line = parsed(log())[4]
    assert (line["outcome"], line["results"], line["registers"]) == ("build_failed", [], None)
    assert line["failure"] == {"stage": "build", "reason": "no", "detail": ""}


def test_a_kernel_nobody_had_an_idea_for_is_a_line_too() -> None:
    line = parsed(log())[5]
    assert (line["source"], line["idea"], line["round"], line["suggested"]) == ("sampler", "", 0, [])
    assert line["results"][0]["speedup"] == 2.0


# --- nothing leaves the machine -------------------------------------------------------------------

SECRETS = "sk-ant-api03-SeCrEt99 Bearer SeCrEt99tok https://gpu-17.corp.example/x alice@corp"
POISON = f"/home/alice/lab/gemm.cu {SECRETS}"
LEAKS = ("alice", "lab", "SeCrEt99", "corp", "gpu-17", "/home", "/opt")


def poisoned() -> training.SearchLog:
    failure = Failure(stage="build", reason=POISON, detail=f"nvcc -I/opt/alice/include\n{POISON}")
    words = idea(hypothesis=POISON)
    wrong = measured(128, on=P2, passed=False).measurement
    wrong = wrong.model_copy(update={"verdict": wrong.verdict.model_copy(update={"reasons": (POISON,)})})
    poisoned_header = header(
        compiler=f"nvcc of {POISON}",
        driver=POISON,
        torch=POISON,
        cublas=POISON,
        flags=("-I/opt/alice",),
        cuda=POISON,
    ).model_copy(update={"simulated": "/home/alice/lab/recorded"})
    refused = (Rejection(idea=POISON, what=POISON, reason=POISON),)
    replies = Answer(text=json.dumps({"said": f"\n{POISON}"}), model=POISON, stop=POISON)
    silence = Answer(failure=failure)
    return log(
        header=poisoned_header,
        asked=(asked(prompt=POISON),),
        answered=(
            answered(transport=POISON, answer=replies, ideas=(words,), dropped=(POISON,), rejected=refused),
            answered(2, answer=silence, ideas=()),
        ),
        fared=(FARED.model_copy(update={"idea": words}),),
        failed={kernel(64).key: build_failed(64).model_copy(update={"failure": failure})},
        measured={P1.key: (), P2.key: (wrong,)},
        rankings={P1.key: (), P2.key: ()},
        run_failures=(run_failed(128, None, P2).model_copy(update={"failure": failure}),),
    )


def test_no_line_carries_a_credential_an_address_or_an_absolute_path() -> None:
    lines = parsed(poisoned())
    assert {line["kind"] for line in lines} == {"exchange", "idea", "rejected", "config"}
    text = training.to_jsonl(poisoned())
    assert not [leak for leak in LEAKS if leak in text]
    assert text.count("gemm.cu") > 10
    assert json.loads(lines[0]["reply"])["said"].startswith("\ngemm.cu [removed]")
    assert lines[0]["simulated"] == "recorded"


# --- from a study on disk -------------------------------------------------------------------------


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """A study of one round; its folder's parent."""
    with Study.open_or_create(tmp_path, header(), (P1, P2)) as opened:
        for event in (asked(), answered()):
            opened.append(event)
        mine = built(128).model_copy(
            update={"proposal": Proposal(kernel=kernel(128), source="llm", idea="i1")}
        )
        fast = measured(128, 1, on=P1, us=(8.0,) * 3)
        for more in (mine, fast, told(128), build_failed(64)):
            opened.append(more)
    return tmp_path


def test_a_study_is_exported_to_stdout_or_to_a_folder(study: Path, tmp_path: Path) -> None:
    text = pipeline.export(ExportOptions(study="s", studies=study, format="training"))
    lines = [json.loads(line) for line in text.split("\n")]
    assert [line["kind"] for line in lines] == ["exchange", "idea", "config", "config"]
    assert lines[1]["speedup"] == {P1.key: 1.25}
    assert lines[2]["results"][0]["speedup"] == 1.25
    out = tmp_path / "there"
    path = pipeline.export(ExportOptions(study="s", studies=study, format="training", out=out))
    assert path == str(out / "s.training.jsonl")
    assert Path(path).read_text(encoding="utf-8") == text + "\n"
