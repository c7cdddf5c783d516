"""The configs of a reply's ideas: each becomes the kernels it stands for, or the reason why not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cutlass_tuner.ideas import Suggestion
from cutlass_tuner.propose.fields import Mistake, array, differences, fields, scalars
from cutlass_tuner.propose.rejections import Rejections
from cutlass_tuner.propose.schema import asked_knobs
from cutlass_tuner.records import DeviceFacts, KernelConfig, LaunchConfig, Problem, Scalar
from cutlass_tuner.space import FamilySpace, Legality, Space
from cutlass_tuner.space.knobs import spelled

Kind = tuple[tuple[str, Scalar], ...]
"""The knobs that a problem decides, with its values: layout tn, say. A kernel serves problems of its kind."""


@dataclass(frozen=True)
class Place:
    """The idea that configs stand in. `targets` are not empty."""

    idea: str
    family: FamilySpace
    targets: tuple[Problem, ...]

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The distinct kinds of the targets in their order; of a family without given knobs, all are one."""
        return tuple(dict.fromkeys(_kind(self.family, problem) for problem in self.targets))

    def served(self, kind: Kind) -> tuple[Problem, ...]:
        """The targets that a kernel of this kind is for."""
        return tuple(problem for problem in self.targets if _kind(self.family, problem) == kind)


def _kind(family: FamilySpace, problem: Problem) -> Kind:
    return tuple(family.knobs_for(problem).items())


@dataclass(frozen=True)
class _Kernel:
    """A config for one kind of its idea's targets, made effective."""

    kind: Kind
    kernel: KernelConfig


class ConfigReader:
    """Reads the configs of one idea after the other and takes no kernel twice.

    `known` maps the key of every kernel that is built or proposed already to who has it, in words.
    """

    def __init__(
        self, space: Space, device: DeviceFacts, known: Mapping[str, str], rejections: Rejections
    ) -> None:
        self._space, self._device, self._rejections = space, device, rejections
        self._who_has = dict(known)
        self._read = 0

    def read(self, place: Place, configs: Sequence[object]) -> tuple[Suggestion, ...]:
        """The kernels that are new and legal on a target, with their legal launches."""
        found: list[Suggestion] = []
        for number, config in enumerate(self._rejections.within("configs", configs, self._read), 1):
            self._read += 1
            found += self._config(place, f"config {number}", config)
        return tuple(found)

    def _config(self, place: Place, name: str, config: object) -> list[Suggestion]:
        asked = asked_knobs(place.family)
        what = name
        try:
            parts = fields(config, ("kernel", "launches"))
            what = f"{name}: {differences(parts['kernel'], asked)}"
            knobs = scalars(parts["kernel"], asked)
            launches = array(parts["launches"], "launches")
        except Mistake as mistake:
            self._rejections.add(place.idea, what, mistake)
            return []
        kernels = self._kernels(place, name, what, knobs)
        if not kernels:
            return []
        legal = self._launches(place, name, kernels, launches)
        return [Suggestion(kernel=k.kernel, launches=tuple(legal[k.kernel.key])) for k in kernels]

    def _kernels(self, place: Place, name: str, what: str, knobs: Mapping[str, Scalar]) -> list[_Kernel]:
        """The config for every kind of target, less what is illegal on all of them or there already."""
        kept: list[_Kernel] = []
        refused: dict[str, list[Kind]] = {}
        for kind in place.kinds:
            try:
                kernel = self._effective(place, kind, knobs)
            except Mistake as mistake:
                refused.setdefault(str(mistake), []).append(kind)
                continue
            kept.append(kernel)
            self._who_has[kernel.kernel.key] = f"{name} of idea {place.idea} has it, in this reply"
        self._refuse(place, what, refused)
        return kept

    def _effective(self, place: Place, kind: Kind, knobs: Mapping[str, Scalar]) -> _Kernel:
        for name, value in kind:
            allowed = place.family.kernel[name]
            if value not in allowed.values:
                raise Mistake(
                    f"its shapes have {name} {spelled(value)}; this search is held to {allowed.allowed}"
                )
        raw = KernelConfig(family=place.family.name, knobs={**knobs, **dict(kind)})
        kernel = self._space.effective(raw, self._device)
        if kernel.key in self._who_has:
            raise Mistake(f"this kernel is not new: {self._who_has[kernel.key]}")
        why = self._illegal(kernel, place.served(kind))
        if why:
            raise Mistake(why)
        return _Kernel(kind, kernel)

    def _launches(
        self, place: Place, name: str, kernels: Sequence[_Kernel], launches: Sequence[object]
    ) -> dict[str, list[LaunchConfig]]:
        """Each kernel's legal launches, by the kernel's key."""
        legal: dict[str, list[LaunchConfig]] = {kernel.kernel.key: [] for kernel in kernels}
        first: dict[str, int] = {}
        for number, asked in enumerate(self._rejections.within("launches", launches), 1):
            what = f"{name}, launch {number}: {differences(asked, place.family.launch)}"
            try:
                launch = LaunchConfig(knobs=scalars(asked, place.family.launch))
                if launch.key in first:
                    raise Mistake(f"the same as launch {first[launch.key]}")
            except Mistake as mistake:
                self._rejections.add(place.idea, what, mistake)
                continue
            first[launch.key] = number
            refused: dict[str, list[Kind]] = {}
            for one in kernels:
                why = self._illegal_launch(one.kernel, launch)
                if why:
                    refused.setdefault(why, []).append(one.kind)
                else:
                    legal[one.kernel.key].append(launch)
            self._refuse(place, what, refused)
        return legal

    def _refuse(self, place: Place, what: str, refused: Mapping[str, Sequence[Kind]]) -> None:
        """One rejection a reason; it names the kinds it is about where it is not about all of them."""
        for reason, kinds in refused.items():
            some = f" ({_kinds_text(kinds)})" if len(kinds) < len(place.kinds) else ""
            self._rejections.add(place.idea, what + some, reason)

    def _illegal(self, kernel: KernelConfig, targets: Sequence[Problem]) -> str:
        """The rules broken on the first target, "" where the kernel is legal on one of the targets."""
        first = self._space.check(kernel, None, targets[0], self._device)
        # What is broken without a problem is broken on each: asking all of them would take seconds.
        if first.legal or not self._space.check(kernel, None, None, self._device).legal:
            return _reasons(first)
        others = (self._space.check(kernel, None, problem, self._device) for problem in targets[1:])
        return "" if any(one.legal for one in others) else _reasons(first)

    def _illegal_launch(self, kernel: KernelConfig, launch: LaunchConfig) -> str:
        """The rules a launch of a legal kernel breaks. No rule looks at a launch and a problem at once
        (`ops.rule.Scope`), so a launch that breaks none is legal wherever its kernel is."""
        return _reasons(self._space.check(kernel, launch, None, self._device))


def _kinds_text(kinds: Sequence[Kind]) -> str:
    """ "layout tn, tt"; of several knobs "head_dim 64 and mask full, head_dim 64 and mask causal"."""
    if len(kinds[0]) == 1:
        [[name, _]] = kinds[0]
        return f"{name} {', '.join(spelled(value) for [[_, value]] in kinds)}"
    return ", ".join(" and ".join(f"{name} {spelled(value)}" for name, value in kind) for kind in kinds)


def _reasons(legality: Legality) -> str:
    return "; ".join(f"{broken.rule}: {broken.reason}" for broken in legality.illegal)
