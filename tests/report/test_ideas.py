"""Ideas and conversations as a person reads them in a terminal."""

from __future__ import annotations

from cutlass_tuner.events import Answered
from cutlass_tuner.ideas import Answer, Fared, Fate, Idea, Rejection, Usage
from cutlass_tuner.records import Failure
from cutlass_tuner.report.ideas import conversation_lines, ideas_table, rejections

LABELS = {"a": "512x512x512", "b": "up-projection", "c": "64x64x16384"}
HYPOTHESIS = (
    "64 CTAs of 256x64 leave no SM idle in the last wave, and a cluster of 2x1 reads every tile of A once."
)


def fared(
    idea: str,
    parent: str = "",
    fate: Fate = "done",
    targets: tuple[str, ...] = ("a",),
    hypothesis: str = HYPOTHESIS,
    **figures: object,
) -> Fared:
    stated = Idea(
        id=idea,
        parent=parent,
        hypothesis=hypothesis,
        bottleneck="wave",
        targets=targets,
        expected=1.05,
        family="tma_ws",
    )
    return Fared.model_validate({"idea": stated, "fate": fate, **figures})


def answered(number: int, answer: Answer, **taken: object) -> Answered:
    values = {"round": number, "transport": "anthropic", "answer": answer, "at_s": 1.0, **taken}
    return Answered.model_validate(values)


PAID = Answer(
    text="{}",
    model="some-model",
    stop="end_turn",
    usage=Usage(input_tokens=12_345, output_tokens=678, cost_usd=0.25),
)


def test_an_idea_is_a_line_of_figures_and_its_hypothesis_below() -> None:
    one = fared("i1", targets=("a", "b"), built=12, failed=3, achieved=1.0432, leads=("b",))
    text = ideas_table([one], LABELS, None)
    assert text.splitlines() == [
        "idea  fate  attacks  built  failed  expected  achieved  leads  shapes",
        "----  ----  -------  -----  ------  --------  --------  -----  ------",
        "i1    done  wave        12       3     1.050     1.043      1  2: 512x512x512, up-projection",
        f"  {HYPOTHESIS}",
    ]


def test_a_branch_stands_under_its_parent_whatever_came_between() -> None:
    ideas = [fared("i1"), fared("i2"), fared("i3", "i1"), fared("i4", "i3"), fared("i5", "i1")]
    lines = ideas_table(ideas, LABELS, None).splitlines()[2::2]
    assert [line.split("done")[0].rstrip() for line in lines] == ["i1", "  i3", "    i4", "  i5", "i2"]


def test_no_idea_is_lost_for_a_strange_parent() -> None:
    ideas = [fared("i1", "gone"), fared("i2", "i3"), fared("i3", "i2"), fared("i4", "i4")]
    lines = ideas_table(ideas, LABELS, None).splitlines()[2::2]
    names = [line.split("done")[0].strip() for line in lines]
    assert names == ["i1 (of gone)", "i2 (of i3)", "i3", "i4 (of i4)"]


def test_what_is_not_measured_has_no_figure() -> None:
    line = ideas_table([fared("i1", fate="waiting")], LABELS, None).splitlines()[2]
    assert line.split() == ["i1", "waiting", "wave", "0", "0", "1.050", "-", "0", "512x512x512"]


def test_lines_are_cut_to_the_terminal_and_say_so() -> None:
    lines = ideas_table([fared("i1", targets=("a", "b", "c", "unknown"))], LABELS, 80).splitlines()
    assert max(map(len, lines)) == 80
    assert lines[2].endswith("…") and lines[3].endswith("…")
    assert lines[3][:79] == f"  {HYPOTHESIS}"[:79]
    assert "unknown" in ideas_table([fared("i1", targets=("a", "unknown"))], LABELS, None)


def test_a_strangers_text_stays_on_its_line_and_moves_no_cursor() -> None:
    hostile = fared("i1\x1b[2J", hypothesis="one\n\n  two\x1b[31m\x07\u202ethree")
    lines = ideas_table([hostile], {"a": "x\ny"}, None).splitlines()
    assert len(lines) == 4
    assert lines[3] == "  one two[31mthree"
    assert lines[2].startswith("i1[2J ") and lines[2].endswith("x y")


def test_without_ideas_there_is_no_table() -> None:
    assert ideas_table([], LABELS, 80) == ""


def test_a_round_says_who_answered_for_how_much_and_what_came_of_it() -> None:
    refused = (
        Rejection(idea="i1", what="tile=128x24x64", reason="no"),
        Rejection(idea="", what="", reason="no"),
    )
    ideas = (fared("i1").idea,)
    (line, total) = conversation_lines(
        [answered(1, PAID, ideas=ideas, rejected=refused, dropped=("i7", "i8"))]
    )
    assert line == (
        "round 1, anthropic, some-model, 12,345 tokens in, 678 out, $0.25: "
        "1 idea, 2 things refused, i7, i8 dropped"
    )
    assert total == "in all $0.25"


def test_a_round_without_an_answer_says_why() -> None:
    failed = Answer(failure=Failure(stage="propose", reason="429:\nrate limited"))
    assert conversation_lines([answered(2, failed)]) == ["round 2, anthropic: no answer: 429: rate limited"]


def test_an_unusual_end_and_an_unknown_price_are_said() -> None:
    free = Answer(model="m", stop="max_tokens", usage=Usage(input_tokens=5, output_tokens=6))
    lines = conversation_lines([answered(1, PAID), answered(2, free), answered(3, PAID)])
    assert lines[1] == "round 2, anthropic, m, 5 tokens in, 6 out: 0 ideas, stopped by max_tokens"
    assert lines[3] == "in all $0.50 (of 2 of 3 answers)"
    assert len(conversation_lines([answered(2, free)])) == 1
    assert conversation_lines([]) == []


def test_refusals_are_listed_up_to_the_limit() -> None:
    rounds = [
        answered(1, PAID, rejected=(Rejection(idea="i1", what="tile=128x24x64", reason="tile_n is 24"),)),
        answered(3, PAID, rejected=(Rejection(idea="", what="", reason="no\nJSON"),) * 3),
    ]
    lines = rejections(rounds, 2)
    assert lines == ["round 1, idea i1: tile=128x24x64: tile_n is 24", "round 3: no JSON", "and 2 more"]
    assert rejections(rounds, 4)[-1] == "round 3: no JSON"
    assert rejections(rounds, 1, width=20)[0] == "round 1, idea i1: t…"
