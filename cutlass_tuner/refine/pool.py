"""All legal kernels of a study as a finite pool: rows, knob codes, siblings, and who is still fresh.

A sampler of this package never searches the knob grid, of which most points are illegal: it chooses
rows of this pool. Illegal points therefore never become trials, and narrowing the search is a
mask over rows, never a change of Optuna's distributions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from optuna.distributions import BaseDistribution, CategoricalDistribution

from cutlass_tuner.records import KernelConfig, Scalar

Rows = NDArray[np.int64]
"""Row numbers of candidates."""


class Knob(Protocol):
    """A compile-time knob: its name and its allowed values, in the space's order."""

    @property
    def name(self) -> str: ...
    @property
    def values(self) -> Sequence[Scalar]: ...


class Candidates(Protocol):
    """All legal, effective kernels of a space, row by row, without duplicates.

    `codes[i, j]` is the index of row i's raw value among the values of knob j (the effective value,
    in `kernel(i)`, may be another: stages "auto" becomes a number). `serves[i, s]` says that kernel i
    can run problem s, `unwise[i]` that it is legal but expected to be slow, `unwise_on[i, s]` says it
    problem by problem.
    """

    def __len__(self) -> int: ...
    def kernel(self, row: int) -> KernelConfig: ...
    @property
    def codes(self) -> NDArray[np.int16]: ...
    @property
    def serves(self) -> NDArray[np.bool_]: ...
    @property
    def unwise(self) -> NDArray[np.bool_]: ...
    @property
    def unwise_on(self) -> NDArray[np.bool_]: ...


class Pool:
    """Candidates with what sampling needs: Optuna's distributions, sibling groups, a fresh mask.

    `siblings(kernel)` names a group: kernels of equal names share template instantiations, so
    compiling them in one translation unit costs little more than compiling one.
    """

    def __init__(
        self, candidates: Candidates, knobs: Sequence[Knob], siblings: Callable[[KernelConfig], str]
    ) -> None:
        self.candidates = candidates
        self.codes: NDArray[np.int16] = np.ascontiguousarray(candidates.codes, dtype=np.int16)
        self.values = {knob.name: tuple(knob.values) for knob in knobs}
        self.distributions: dict[str, BaseDistribution] = {
            name: CategoricalDistribution(values) for name, values in self.values.items()
        }
        self.fresh = np.ones(len(candidates), dtype=np.bool_)
        """Rows nobody asked for yet. `take` clears them."""
        self._code_of = [{value: code for code, value in enumerate(v)} for v in self.values.values()]
        self._row_of_codes = {row.tobytes(): i for i, row in enumerate(self.codes)}
        kernels = [candidates.kernel(row) for row in range(len(candidates))]
        self.effective: dict[str, list[Scalar]] = {
            name: [kernel.knobs[name] for kernel in kernels] for name in self.values
        }
        """Columns of effective knob values."""
        self.families = np.array([kernel.family for kernel in kernels], dtype=np.str_)
        """Each row's family."""
        self._families = set(self.families.tolist())
        self._row_of_knobs = {
            knobs: row for row, knobs in enumerate(zip(*self.effective.values(), strict=True))
        }
        self.groups = self._label([siblings(kernel) for kernel in kernels])
        self._distance: dict[int, NDArray[np.uint8]] = {}
        self._distinct: dict[str, tuple[list[Scalar], NDArray[np.int32]]] = {}

    def __len__(self) -> int:
        return len(self.fresh)

    def _label(self, names: Sequence[str]) -> NDArray[np.int32]:
        labels = {name: label for label, name in enumerate(dict.fromkeys(names))}
        groups = np.array([labels[name] for name in names], dtype=np.int32)
        self._order = np.argsort(groups, kind="stable").astype(np.int64)
        self._first = np.searchsorted(groups[self._order], np.arange(len(labels) + 1))
        return groups

    def members(self, group: int) -> Rows:
        """All rows of a sibling group, fresh or not."""
        return self._order[self._first[group] : self._first[group + 1]]

    def row(self, kernel: KernelConfig) -> int | None:
        """The row of an effective kernel, None when it is not among the candidates."""
        if kernel.family not in self._families or kernel.knobs.keys() != self.effective.keys():
            return None
        return self._row_of_knobs.get(tuple(kernel.knobs[name] for name in self.effective))

    def distinct(self, knob: str) -> tuple[list[Scalar], NDArray[np.int32]]:
        """A knob's effective values, each once, and each row's place among them."""
        if knob not in self._distinct:
            places: dict[tuple[type, Scalar], int] = {}  # True is not 1
            column = [places.setdefault((type(v), v), len(places)) for v in self.effective[knob]]
            self._distinct[knob] = [value for _, value in places], np.array(column, dtype=np.int32)
        return self._distinct[knob]

    def params(self, row: int) -> dict[str, Scalar]:
        """A row as Optuna's parameters."""
        return {name: v[code] for (name, v), code in zip(self.values.items(), self.codes[row], strict=True)}

    def row_of_params(self, params: Mapping[str, Any]) -> int | None:
        """The row of Optuna's parameters, None when they are illegal."""
        return self._row_of_codes.get(self._coded(params).tobytes())

    def _coded(self, params: Mapping[str, Any]) -> NDArray[np.int16]:
        codes = (code[params[name]] for name, code in zip(self.values, self._code_of, strict=True))
        return np.fromiter(codes, dtype=np.int16, count=len(self.values))

    def take(self, row: int) -> None:
        """Mark a row as asked for: it is never proposed again."""
        self.fresh[row] = False

    def distance(self, row: int) -> NDArray[np.uint8]:
        """Knobs in which each candidate differs from `row`. Kept, since incumbents stay for long."""
        if row not in self._distance:
            if len(self._distance) >= 256:
                self._distance.clear()
            self._distance[row] = self._differing(self.codes[row])
        return self._distance[row]

    def _differing(self, codes: NDArray[np.int16]) -> NDArray[np.uint8]:
        differing = np.zeros(len(self), dtype=np.uint8)
        for column, code in zip(self.codes.T, codes, strict=True):
            differing += column != code
        return differing

    def nearest(self, params: Mapping[str, Any], allowed: NDArray[np.bool_], rng: np.random.Generator) -> int:
        """The allowed row that differs from `params` in the fewest knobs; ties are drawn by lot."""
        rows = np.flatnonzero(allowed)
        differing = self._differing(self._coded(params))[rows]
        return int(rng.choice(rows[differing == differing.min()]))
