"""Producer and warp groups of the flash kernels, run on a CPU from their own text, against brute force.

The machine (machine.h) runs two threads of every warp group in many orders. A wait for what never comes is a
deadlock, a stage let go too early shows in what was read from it, a wrong block or mask in the numbers.
"""

from __future__ import annotations

import ctypes
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from cutlass_tuner.emit import flash
from emit.flash.on_cpu import HERE, compiled, knobs

PROBLEMS = 8
"""Of each kernel."""


class Problem(ctypes.Structure):
    """protocol.h's Problem."""

    _fields_ = [
        (name, ctypes.c_int32)
        for name in (
            *("batch", "heads_q", "heads_kv", "seqlen_q", "seqlen_kv", "causal"),
            *("persistent", "heavy", "section", "sms", "thread", "schedule"),
        )
    ]


Run = Callable[[Problem], str]


def drawn(rng: random.Random, causal: bool) -> Problem:
    """Lengths that no tile divides, fewer or more keys than queries, and now and then a square."""
    heads_kv, seqlen_q = rng.randint(1, 2), rng.randint(1, 600)
    return Problem(
        batch=rng.randint(1, 2),
        heads_q=heads_kv * rng.randint(1, 2),
        heads_kv=heads_kv,
        seqlen_q=seqlen_q,
        seqlen_kv=seqlen_q if rng.random() < 0.25 else rng.randint(1, 600),
        causal=rng.randint(1, 2) if causal else 0,
        persistent=rng.random() < 0.75,
        heavy=rng.randint(0, 1),
        section=rng.choice((1, 2, 4)),
        sms=rng.randint(1, 3),
        thread=rng.randint(4, 127),  # beyond the first quad: rows of its own
        schedule=rng.randrange(1 << 20),
    )


def some_kernels() -> Iterator[dict[str, Any]]:
    """Every number of groups with and without turns, overlap and a second Q, with all else drawn; a third of
    them also without a mask, which asks less."""
    rng = random.Random(0)
    for groups, pingpong, overlap, q_stages in product((1, 2, 3, 4), (True, False), (True, False), (1, 2)):
        if groups == 1 and pingpong:  # a group alone takes no turns
            continue
        yield {
            "groups": groups,
            "pingpong": pingpong,
            "overlap": overlap,
            "q_stages": q_stages,
            "causal": rng.random() < 0.7,
            "tile_kv": rng.choice((32, 48, 64, 80, 128, 208)),
            "stages": rng.randint(1, 4),
            "head_dim": rng.choice((32, 32, 128)),
            "lazy": rng.random() < 0.5,
            "exp_fma": rng.choice((0, 3)),
        }


KERNELS = list(some_kernels())


def exported(kernels: list[str]) -> str:
    """C functions run_0, run_1... of these kernels' types."""
    word = 'extern "C" __attribute__((visibility("default")))'
    lines = (
        f"{word} char const* run_{i}(cutlass_tuner::flash::Problem const* problem)"
        f" {{ return cutlass_tuner::flash::run<{kind}>(problem); }}\n"
        for i, kind in enumerate(kernels)
    )
    return f'#include "protocol.h"\n{"".join(lines)}'


def runs(library: ctypes.CDLL, count: int) -> list[Run]:
    """What went wrong in a problem, or "", by each of the library's kernels."""

    def run(index: int, problem: Problem) -> str:
        function = getattr(library, f"run_{index}")
        function.restype = ctypes.c_char_p
        told: bytes = function(ctypes.byref(problem))
        return told.decode()

    return [partial(run, index) for index in range(count)]


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    source = exported([knobs(**kernel) for kernel in KERNELS])
    return runs(compiled(tmp_path_factory.mktemp("protocol"), source), len(KERNELS))


@pytest.mark.parametrize("index", range(len(KERNELS)), ids=lambda index: knobs(**KERNELS[index])[52:-1])
def test_no_order_of_events_deadlocks_or_gives_a_wrong_answer(kernels: list[Run], index: int) -> None:
    rng = random.Random(index)
    for _ in range(PROBLEMS):
        problem = drawn(rng, bool(KERNELS[index]["causal"]))
        told = kernels[index](problem)
        assert told == "", {name: getattr(problem, name) for name, *_ in Problem._fields_}


# --- the test can fail: one change to the text, and the machine sees what it does


@dataclass(frozen=True)
class Mutant:
    """In `file`, each `old` (which stands there once) becomes `new`. A `kernel` of it is told `fault`."""

    file: str
    changes: tuple[tuple[str, str], ...]
    fault: str
    kernel: dict[str, Any]


MEET = "sync_threads(kGroupThreads, kStore + group);"
CAUSAL = {"groups": 4, "stages": 3, "tile_kv": 64}
MUTANTS = {
    # Unseen blocks are let go at once and their turns passed afterwards: the first group waits for blocks
    # that the last one, which has no turn, keeps from being loaded.
    "turns_after_the_first_scores": Mutant(
        "consumer.h",
        (
            ("int unseen = unseen_blocks(tile);", "int unseen = unseen_blocks(tile), owed = unseen;"),
            ("skip_turn(in_turn);", "skip_turn(true);"),
            ("skip_turn(false);", "skip_turn(true);"),
            ("bool const behind", "owed -= owed > 0 && in_turn;\n      bool const behind"),
            (
                "complete<0>(s);\n      if (behind)",
                "complete<0>(s);\n      for (; owed > 0; --owed) { await_turn(); pass_turn(); }\n"
                "      if (behind)",
            ),
        ),
        "deadlock",
        CAUSAL,
    ),
    "a_warp_that_comes_late": Mutant(
        "consumer.h",
        ((f"    }} else {{\n      {MEET}\n    }}", "    }"),),
        "deadlock",
        {"groups": 4, "stages": 1, "tile_kv": 128, "pingpong": False},
    ),
    "a_turn_less": Mutant("consumer.h", (("skip_turn(false);", "skip_turn(true);"),), "deadlock", CAUSAL),
    "k_let_go_under_its_product": Mutant(
        "consumer.h",
        (
            (
                "complete<1>(s);\n          release(barriers.k_empty, k);",
                "release(barriers.k_empty, k);\n          complete<1>(s);",
            ),
        ),
        "K was overwritten",
        {"stages": 1},
    ),
    "v_let_go_under_its_product": Mutant(
        "consumer.h",
        (
            (
                "complete<0>(o);\n          release(barriers.v_empty, v);\n        }\n        if (grown)",
                "release(barriers.v_empty, v);\n          complete<0>(o);\n        }\n        if (grown)",
            ),
        ),
        "V was overwritten",
        {"stages": 1},
    ),
    "q_let_go_before_o_left": Mutant(
        "consumer.h", (("await_stored();\n    if", "if"),), "O was overwritten", {"q_stages": 2}
    ),
    "memory_given_up_before_o_left": Mutant(
        "consumer.h", (("await_stored();\n        break;", "break;"),), "a CTA ends", {}
    ),
    "o_stored_before_all_wrote_it": Mutant(
        "consumer.h", ((f"    tma_store_fence();\n    {MEET}", "    tma_store_fence();"),), "half a tile", {}
    ),
    "keys_of_another_head": Mutant(
        "producer.h", (("head / params.heads_per_kv", "head % params.heads_per_kv"),), "instead of", {}
    ),
    "a_key_too_many": Mutant(
        "consumer.h", (("8 * r + params.diagonal);", "8 * r + params.diagonal + 1);"),), "instead of", {}
    ),
    "an_unmasked_block": Mutant(
        "consumer.h",
        (("start + 1 + params.diagonal", "start + kGroupRows + params.diagonal"),),
        "instead of",
        {},
    ),
    "fewer_arrivals": Mutant(
        "tensors.h",
        (("Barrier::init(&k_empty[i], K::kGroups)", "Barrier::init(&k_empty[i], 1)"),),
        "",
        {"stages": 1},
    ),
}


def mutated(folder: Path) -> str:
    """A source of all mutants: each has a copy of the headers, with a namespace and a path of its own."""
    files = (*flash.DEVICE_HEADERS, *flash.HOST_HEADERS, HERE / "protocol.h")
    texts = []
    for index, (name, mutant) in enumerate(MUTANTS.items()):
        for path in files:
            text = path.read_text()
            if path.name == mutant.file:
                for old, new in mutant.changes:
                    assert text.count(old) == 1, f"{name}: {old!r} stands {text.count(old)} times"
                    text = text.replace(old, new)
            text = text.replace("cutlass_tuner::flash", f"cutlass_tuner::mutant_{index}")
            text = text.replace('"emit/flash/', f'"mutant_{index}/')
            copy = folder / f"mutant_{index}" / path.name
            copy.parent.mkdir(exist_ok=True)
            copy.write_text(text)
        own = exported([knobs(**mutant.kernel)]).replace("run_0", f"run_{index}")
        own = own.replace('"protocol.h"', f'"mutant_{index}/protocol.h"')
        texts.append(own.replace("cutlass_tuner::flash", f"cutlass_tuner::mutant_{index}"))
    return "".join(texts)


@pytest.fixture(scope="module")
def mutants(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    folder = tmp_path_factory.mktemp("mutants")
    library = compiled(folder, mutated(folder), instead=[folder])
    return dict(zip(MUTANTS, runs(library, len(MUTANTS)), strict=True))


@pytest.mark.parametrize("name", MUTANTS)
def test_a_change_to_the_protocol_shows(mutants: dict[str, Run], name: str) -> None:
    rng = random.Random(name)
    told = []
    for _ in range(25):
        problem = drawn(rng, causal=True)
        problem.seqlen_q, problem.seqlen_kv, problem.persistent, problem.sms = 600, 600, 1, 1
        told.append(mutants[name](problem))
    assert any(MUTANTS[name].fault in one for one in told if one), set(told)
