"""The interface `Search` asks batches of siblings through: an Optuna sampler that knows a batch's size."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler
from optuna.study import Study
from optuna.trial import FrozenTrial
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from cutlass_tuner.refine.focus import Focus
from cutlass_tuner.refine.pool import Pool


def one_thread() -> AbstractContextManager[object]:
    """Keep BLAS and OpenMP to one thread.

    While a search runs, all cores compile: threads that wait for one another there made a batch 5 to
    20 times slower (two busy cores, 600 observations).
    """
    limits: AbstractContextManager[object] = threadpool_limits(limits=1)
    return limits


class BatchSampler(BaseSampler):
    """A sampler over the rows of a pool. `begin` opens a batch; ask the study while `more` is true.

    Within a batch every kernel comes from one sibling group: `group` when given, else that of the
    first kernel chosen. With a `focus` it is chosen among the focus's rows, for the sake of its problems.
    Asked outside a batch it proposes single kernels.
    """

    def __init__(self, pool: Pool) -> None:
        self.pool = pool

    @abstractmethod
    def begin(self, study: Study, size: int, group: int | None = None, focus: Focus | None = None) -> None:
        """Open a batch of at most `size` kernels."""

    @abstractmethod
    def more(self) -> bool:
        """Is there another kernel in the open batch?"""

    @abstractmethod
    def choose(self, study: Study, trial: FrozenTrial) -> int:
        """The next row. The pool has a fresh one when this is called."""

    def pick(self, study: Study, waiting: Sequence[int], size: int) -> list[int]:
        """Up to `size` of the rows that somebody proposed, which wait in this order: those to build next."""
        return list(waiting[:size])

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """All knobs, always: what is legal is a mask over rows, not a matter of distributions."""
        return self.pool.distributions

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        if not self.pool.fresh.any():
            raise RuntimeError("every candidate was asked for already; look at pool.fresh before asking")
        row = self.choose(study, trial)
        self.pool.take(row)
        return dict(self.pool.params(row))

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        raise KeyError(f"{param_name!r} is not a knob of this pool; it has {', '.join(self.pool.values)}")
