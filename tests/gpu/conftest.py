"""One measuring child, one workshop and one set of hand-made kernels for all GPU tests of a run.

tests/conftest.py skips these tests, and says why, where the driver reports no Hopper GPU. On a GPU machine:

    python -m pytest tests/gpu -n 0 -v -s
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from cutlass_tuner.machine import Driver, driver
from cutlass_tuner.ops import registry
from cutlass_tuner.ops.registry import Op
from cutlass_tuner.options import ToolchainOptions
from cutlass_tuner.pipeline import setup
from cutlass_tuner.pipeline.bench import Bench
from cutlass_tuner.records import DeviceFacts, Evidence, Problem
from cutlass_tuner.verify.judge import judge
from cutlass_tuner.wire import ContestResult, KernelEntry, Timed

from .handmade import Handmade, compile_all
from .workshop import Workshop

ROUNDS = 3
SAMPLE_US = 20.0
"""Little: these kernels are slow, and it is not their time that is asked."""

Answers = Callable[..., Evidence]


@pytest.fixture(scope="session")
def op() -> Op:
    return registry.op("hgemm")


@pytest.fixture(scope="session")
def workshop(op: Op, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workshop]:
    with Workshop(op, tmp_path_factory.mktemp("workshop")) as made:
        yield made


@pytest.fixture(scope="session", autouse=True)
def _compiling_begins_with_the_first_test(request: pytest.FixtureRequest) -> None:
    """Whichever it is, if any later one needs what the workshop makes."""
    if any("workshop" in getattr(item, "fixturenames", ()) for item in request.session.items):
        request.getfixturevalue("workshop")


@pytest.fixture(scope="session")
def bench(op: Op, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """The first Hopper GPU, cold L2, through one child that is restarted as often as tests kill it."""
    found = driver()
    assert isinstance(found, Driver), found
    gpu = next(each.index for each in found.gpus if each.arch == "sm_90")
    with Bench(op, "cold", gpu, tmp_path_factory.mktemp("child") / "child.log") as made:
        yield made


@pytest.fixture(scope="session")
def device(bench: Bench) -> DeviceFacts:
    return bench.describe().device


@pytest.fixture(scope="session")
def handmade(tmp_path_factory: pytest.TempPathFactory) -> Handmade:
    return compile_all(setup.toolchain(ToolchainOptions()), tmp_path_factory.mktemp("handmade"))


@pytest.fixture(scope="session")
def square(op: Op) -> Problem:
    """Deep enough that fp16 accumulation shows, small enough for kernels without tensor cores."""
    return op.problem((256, 256, 2048), "tn")


@pytest.fixture
def answers(bench: Bench, square: Problem) -> Answers:
    """What the child saw of one hand-made kernel's answers, beside torch, by every check there is."""

    def seen(entry: KernelEntry) -> Evidence:
        result = bench.contest(
            square, [bench.reference(square), entry], ROUNDS, sample_us=SAMPLE_US, check_after=True
        )
        assert isinstance(result, ContestResult), result
        reference, timed = result.entries
        assert isinstance(reference, Timed) and isinstance(timed, Timed), timed
        assert len(timed.samples_us) == ROUNDS
        return timed.evidence

    return seen


@pytest.fixture
def still_works(answers: Answers, handmade: Handmade) -> Callable[[], None]:
    """Asserts that an honest kernel passes in the next contest."""

    def check() -> None:
        verdict = judge(answers(handmade.entry("honest")), deterministic=True)
        assert verdict.passed, verdict.reasons

    return check
