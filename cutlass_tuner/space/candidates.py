"""All legal kernels of a family for given problems, side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from cutlass_tuner.errors import UserError
from cutlass_tuner.ops.columns import BoolArray, Columns, IntArray
from cutlass_tuner.ops.family import Family
from cutlass_tuner.records import DeviceFacts, KernelConfig, Problem, Scalar
from cutlass_tuner.space import grid
from cutlass_tuner.space.knobs import FamilySpace, Kind, Knob, spelled


@dataclass(frozen=True)
class Candidates:
    """Every legal effective kernel once, in the space's order. Rows are kernels, one for each `codes` row.

    `codes[i, j]` (int16) is the index of row i's raw value among `knobs`' j-th values; where several raw
    configs make one kernel, the first of the grid stands for it. `serves[i, p]`: kernel i may run
    problem p. `unwise[i]`: legal but expected to be slow, whatever the problem or on each it serves;
    `unwise_on[i, p]` says it problem by problem.
    """

    family: str
    knobs: Mapping[str, Knob]
    problems: tuple[Problem, ...]
    codes: grid.Codes
    columns: Columns
    serves: BoolArray
    unwise: BoolArray
    unwise_on: BoolArray

    def __len__(self) -> int:
        return len(self.codes)

    def kernel(self, row: int) -> KernelConfig:
        """The row's effective kernel."""
        knobs = {name: values[row] for name, values in self._decoded.items()}
        # Valid by construction: validating a hundred thousand rows again would take seconds.
        return KernelConfig.model_construct(family=self.family, knobs=knobs)

    def raw(self, row: int) -> dict[str, Scalar]:
        """The row's knobs as the space lists them (stages may be "auto")."""
        return {
            name: knob.values[code]
            for (name, knob), code in zip(self.knobs.items(), self.codes[row].tolist(), strict=True)
        }

    def row(self, kernel: KernelConfig) -> int | None:
        """The row of an effective kernel, None where it is not a candidate."""
        if kernel.family != self.family or set(kernel.knobs) != set(self.knobs):
            return None
        match = np.ones(len(self), dtype=np.bool_)
        for name, value in kernel.knobs.items():
            try:
                code = self.columns.alphabets[name].encode(value)
            except ValueError:  # a value that no kernel of this space can have
                return None
            match &= self.columns[name] == code
        rows = np.flatnonzero(match)
        return int(rows[0]) if len(rows) else None

    def take(self, rows: IntArray) -> Candidates:
        """These rows alone, in this order."""
        return replace(
            self,
            codes=self.codes[rows],
            columns=self.columns.take(rows),
            serves=self.serves[rows],
            unwise=self.unwise[rows],
            unwise_on=self.unwise_on[rows],
        )

    @cached_property
    def _decoded(self) -> dict[str, list[Scalar]]:
        decoded: dict[str, list[Scalar]] = {}
        for name, array in self.columns.arrays.items():
            alphabet = self.columns.alphabets[name]
            meaning = {code: alphabet.decode(code) for code in np.unique(array).tolist()}
            decoded[name] = [meaning[code] for code in array.tolist()]
        return decoded


def candidates(
    family: FamilySpace, model: Family, problems: Sequence[Problem], device: DeviceFacts
) -> Candidates:
    """Raises UserError when no kernel is legal, or none serves any of the problems."""
    knobs = _asked(family, problems)
    codes, kernels = _legal(family, model, knobs, device)
    # Codes index the space's own values, also where those that no problem gives were left out.
    for position, (name, knob) in enumerate(knobs.items()):
        places = np.array([family.kernel[name].values.index(value) for value in knob.values], dtype=np.int16)
        codes[:, position] = places[codes[:, position]]
    if not len(codes):
        raise UserError(f"no kernel of family {family.name} is legal with these knob values on {device.name}")
    serves = _no_rule_broken(family, model, kernels, problems, device, kind="illegal")
    kept: BoolArray = np.logical_or(serves.any(axis=1), not problems)
    if not kept.any():
        names = ", ".join(problem.label for problem in problems[:3])
        raise UserError(f"no kernel of family {family.name} can run {names} with these knob values")
    codes, kernels, serves = codes[kept], kernels.take(kept), serves[kept]
    slow = np.zeros(len(codes), dtype=np.bool_)
    for name, rule in model.rules.items():
        if rule.scope == "kernel" and family.rules[name].kind == "unwise":
            slow |= rule.broken(kernels, None, device)
    unwise_on = slow[:, None] | ~_no_rule_broken(family, model, kernels, problems, device, kind="unwise")
    everywhere = (unwise_on | ~serves).all(axis=1) if problems else slow
    return Candidates(
        family.name, family.kernel, tuple(problems), codes, kernels, serves, slow | everywhere, unwise_on
    )


def _asked(family: FamilySpace, problems: Sequence[Problem]) -> dict[str, Knob]:
    """Without values that no problem gives a knob: they would double the grid and serve nothing."""
    narrowed = dict(family.kernel)
    for name, given in family.given.items() if problems else ():
        knob = narrowed[name]
        asked = dict.fromkeys(given(problem) for problem in problems)
        values = tuple(value for value in knob.values if value in asked)
        if not values:
            shapes = ", ".join(sorted(map(spelled, asked)))
            raise UserError(f"{name} of the shapes is {shapes}, of the space {knob.allowed}")
        narrowed[name] = replace(knob, values=values, default=values[0])
    return narrowed


def _legal(
    family: FamilySpace, model: Family, knobs: Mapping[str, Knob], device: DeviceFacts
) -> tuple[grid.Codes, Columns]:
    all_codes, all_kernels = [], []
    for codes, raw in grid.blocks(knobs, model.needs):
        kernels = model.resolve(raw, device)
        legal = ~grid.illegal(family, model, kernels, device)
        all_codes.append(codes[legal])
        all_kernels.append(kernels.take(legal))
    table = Columns(
        {name: np.concatenate([block[name] for block in all_kernels]) for name in knobs},
        {name: knob.alphabet for name, knob in knobs.items()},
    )
    distinct = grid.first_of_each(table)
    return np.concatenate(all_codes)[distinct], table.take(distinct)


def _no_rule_broken(
    family: FamilySpace,
    model: Family,
    kernels: Columns,
    problems: Sequence[Problem],
    device: DeviceFacts,
    *,
    kind: Kind,
) -> BoolArray:
    """rows x problems: no problem rule of that kind is broken."""
    good = np.ones((len(kernels), len(problems)), dtype=np.bool_, order="F")
    for name, rule in model.rules.items():
        if rule.scope == "problem" and family.rules[name].kind == kind:
            for position, problem in enumerate(problems):
                good[:, position] &= ~rule.broken(kernels, problem, device)
    return good
