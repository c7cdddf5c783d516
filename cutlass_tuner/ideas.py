"""What a proposer says: ideas in words, each with kernels to build and a part of the space to search.

A proposer is whoever states ideas: a language model, its recorded replies, a person. Nothing here knows
which; like every record, an idea names kernels and problems by what the op's space and shapes file say.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from cutlass_tuner.records import Failure, KernelConfig, LaunchConfig, Proposal, Record, Scalar

Bottleneck = Literal["wave", "dram", "l2", "latency", "epilogue", "reduction", "power"]
"""What an idea attacks: idle SMs in the last wave; traffic to DRAM or L2; the time of a launch, of a
prologue or of too few loads in flight; storing D; adding up partial sums; energy at the power limit."""


class Condition(Record):
    """True of a kernel whose `knob` has one of these values, as the space spells them or in effect."""

    knob: str
    one_of: tuple[Scalar, ...] = Field(min_length=1)


class Coupling(Record):
    """A kernel for which `when` is true must also satisfy `then`."""

    when: Condition
    then: Condition


class Suggestion(Record):
    """An effective kernel that an idea wants built, and launches to try on the idea's targets besides those
    that are probed anyway. Launches are as asked for, every knob present, not folded yet."""

    kernel: KernelConfig
    launches: tuple[LaunchConfig, ...] = ()


class Wanted(Record):
    """A line of a list of kernels to record (tools/gather writes it, tools/record reads it). The launches are
    tried on every shape on which they are legal, besides those that are probed anyway."""

    proposal: Proposal
    launches: tuple[LaunchConfig, ...] = ()


class Idea(Record):
    """One idea, checked: every kernel in it is legal for at least one target.

    `id` is unique in a study; `parent` is the idea this one branches from, "" for none. `targets` are keys
    of problems. `expected` is what the proposer expects of the idea's best kernels: the geometric mean over
    its targets of torch's time / theirs. `narrowed` maps compile-time knobs to the values the sampler may
    choose for this idea (knobs left out are free); with nothing narrowed and no coupling the idea is its
    suggestions alone.
    """

    id: str
    parent: str = ""
    hypothesis: str
    bottleneck: Bottleneck
    targets: tuple[str, ...] = Field(min_length=1)
    expected: float = Field(gt=0, allow_inf_nan=False)
    family: str
    suggestions: tuple[Suggestion, ...] = ()
    narrowed: dict[str, tuple[Scalar, ...]] = Field(default_factory=dict)
    couplings: tuple[Coupling, ...] = ()

    @property
    def searches(self) -> bool:
        """Does it open a part of the space to the sampler?"""
        return bool(self.narrowed or self.couplings)


class Rejection(Record):
    """Something in a reply that was not taken over, and why, in the words the proposer gets to read.

    `idea` is the id it stands under ("" for the reply as a whole), `what` names it: a config as differences
    from the default, a narrowed space, an id.
    """

    idea: str
    what: str
    reason: str


class Usage(Record):
    """What an answer cost. `cost_usd` is None where the model's price is not known."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None


class Answer(Record):
    """A proposer's answer as it came: text, or the failure that left none.

    `model` is the name the answer was given under, `stop` the reason the model stopped for ("" unknown).
    """

    text: str = ""
    model: str = ""
    stop: str = ""
    usage: Usage | None = None
    failure: Failure | None = None


Fate = Literal["waiting", "searching", "done", "lost", "dropped"]
"""waiting: no kernel of it measured yet; searching: the sampler may still choose in its part of the space;
done: its suggestions are measured, and what it gained with is used up; lost: nothing of it gained anything;
dropped: by its proposer."""


class Fared(Record):
    """How an idea fared so far. Ratios are torch's time / ours, by problem key.

    `speedup` is the best of its kernels on each of its targets; `leads` are the problems (targets or not)
    whose best verified kernel is the idea's; `achieved` is the geometric mean over the targets, None while
    one of them has no time.
    """

    idea: Idea
    fate: Fate
    built: int = 0
    failed: int = 0
    speedup: dict[str, float] = Field(default_factory=dict)
    leads: tuple[str, ...] = ()
    achieved: float | None = None
