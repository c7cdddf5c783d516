"""What a space file says about knobs, families and rules, as frozen values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from cutlass_tuner.errors import UserError
from cutlass_tuner.ops.columns import Alphabet
from cutlass_tuner.records import Problem, Scalar

Kind = Literal["illegal", "unwise"]


@dataclass(frozen=True)
class Knob:
    """One knob: the values that are searched, in the file's order, and the default among them.

    `alphabet` covers every value the op knows, also those a narrowed space leaves out. `whole` is
    the range of whole numbers that a hand-written config may use beyond `values`, or None.
    """

    name: str
    values: tuple[Scalar, ...]
    default: Scalar
    doc: str
    alphabet: Alphabet
    whole: tuple[int, int] | None = None

    def accepts(self, value: Scalar) -> bool:
        if any(type(value) is type(known) and value == known for known in self.values):
            return True
        number = isinstance(value, int) and not isinstance(value, bool)
        return number and self.whole is not None and self.whole[0] <= int(value) <= self.whole[1]

    def parse(self, text: str) -> Scalar:
        """A value as typed on the command line. Raises UserError naming what is allowed."""
        for value in self.values:
            if text.strip().lower() == spelled(value):
                return value
        if self.whole is not None and text.strip().isascii() and text.strip().isdigit():
            number = int(text)
            if self.accepts(number):
                return number
        raise self.refusal(text)

    def refusal(self, value: object) -> UserError:
        return UserError(f"{self.name} is {value!r}; use one of {self.allowed}")

    @property
    def allowed(self) -> str:
        listed = ", ".join(spelled(value) for value in self.values)
        return listed if self.whole is None else f"{listed} (or any from {self.whole[0]} to {self.whole[1]})"

    def narrowed(self, values: tuple[Scalar, ...], default: Scalar | None = None) -> Knob:
        """The same knob with fewer values. The default stays where it can, else the first value is it."""
        kept = self.default if default is None else default
        whole = self.whole if set(values) >= set(self.values) else None
        return replace(self, values=values, default=kept if kept in values else values[0], whole=whole)


@dataclass(frozen=True)
class RuleText:
    """A rule as its reader sees it; the predicate of the same name is the op's."""

    name: str
    kind: Kind
    reason: str
    source: str


@dataclass(frozen=True)
class FamilySpace:
    """One kernel family: its compile-time knobs, its run-time knobs and its rules.

    `given` names the compile-time knobs that a problem decides (`ops.family.Family`).
    """

    name: str
    doc: str
    kernel: Mapping[str, Knob]
    launch: Mapping[str, Knob]
    rules: Mapping[str, RuleText]
    given: Mapping[str, Callable[[Problem], Scalar]] = field(default_factory=dict)

    def knobs_for(self, problem: Problem) -> dict[str, Scalar]:
        """The values of the given knobs that a kernel for this problem must have."""
        return {name: value(problem) for name, value in self.given.items()}

    def knob(self, name: str) -> Knob:
        """Raises UserError naming the knobs there are."""
        found = self.kernel.get(name) or self.launch.get(name)
        if found is None:
            known = ", ".join((*self.kernel, *self.launch))
            raise UserError(f"no knob {name!r} in family {self.name}; there are {known}")
        return found

    @property
    def alphabets(self) -> dict[str, Alphabet]:
        return {name: knob.alphabet for name, knob in (*self.kernel.items(), *self.launch.items())}


def spelled(value: Scalar) -> str:
    """A value as the space files and the command line write it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
