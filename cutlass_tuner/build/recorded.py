"""A recorded builder: answers what a builder once said, without a compiler."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from threading import Event

from cutlass_tuner.build.builder import Outcome
from cutlass_tuner.records import Build, Failure, KernelConfig


class RecordedBuilder:
    """Stands where a `Builder` does.

    A build is answered as it was recorded: its files are names that may lead nowhere, `compile_s` is what
    it cost then. A kernel that is neither among `builds` nor among `failures` (by kernel key) fails, with
    `unrecorded` as the reason.
    """

    def __init__(self, builds: Iterable[Build], failures: Mapping[str, Failure], unrecorded: str) -> None:
        self._outcomes: dict[str, Outcome] = {**failures, **{build.kernel.key: build for build in builds}}
        self._unrecorded = Failure(stage="build", reason=unrecorded)

    def build(self, kernels: Sequence[KernelConfig], cancelled: Event | None = None) -> list[Outcome]:
        """The recorded outcomes, aligned with `kernels`. Takes no time, so that nothing is ever cancelled."""
        return [self._outcomes.get(kernel.key, self._unrecorded) for kernel in kernels]
