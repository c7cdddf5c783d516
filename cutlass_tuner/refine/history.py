"""What an Optuna study of kernels knows, as arrays: the trials are the only memory of a search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from cutlass_tuner.refine.pool import Pool, Rows

LOG_RATIO = "log_ratio"
"""User attribute of a told trial: log(time / reference) on each problem, None where it has none."""


@dataclass(frozen=True)
class History:
    """Rows by state, each sorted so that the order of trials does not matter.

    `log_ratio` is told x problems with NaN where a kernel has no time on a problem.
    """

    told: Rows
    log_ratio: NDArray[np.float64]
    failed: Rows
    pending: Rows


def read(study: Study, pool: Pool, problems: int) -> History:
    """Sort the study's trials into told, failed and pending rows of the pool.

    A row told twice (problems were added later) counts with its last values.
    """
    told: dict[int, Sequence[float | None]] = {}
    failed, pending = set[int](), set[int]()
    for trial in study.get_trials(deepcopy=False):
        row = _row(trial, pool)
        if row is None:
            continue
        if trial.state is TrialState.COMPLETE:
            told[row] = trial.user_attrs[LOG_RATIO]
        elif trial.state is TrialState.PRUNED:
            failed.add(row)
        else:
            pending.add(row)
    rows = _sorted(set(told))
    values = [[np.nan if v is None else v for v in told[row]] for row in rows.tolist()]
    log_ratio = np.array(values, dtype=np.float64).reshape(len(rows), problems)
    return History(rows, log_ratio, _sorted(failed - set(told)), _sorted(pending - set(told)))


def _row(trial: FrozenTrial, pool: Pool) -> int | None:
    # A trial that was just created, or waits in the queue, has no parameters yet.
    return pool.row_of_params(trial.params) if trial.params.keys() >= pool.values.keys() else None


def _sorted(rows: set[int]) -> Rows:
    return np.array(sorted(rows), dtype=np.int64)
