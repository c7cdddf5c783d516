"""The part of a space that an idea opens to the sampler, read out of a reply."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cutlass_tuner.ideas import Condition, Coupling
from cutlass_tuner.propose.fields import Mistake, array, fields, known, scalar, shown
from cutlass_tuner.records import Scalar
from cutlass_tuner.space import Knob


def narrowed(conditions: Sequence[object], knobs: Mapping[str, Knob]) -> dict[str, tuple[Scalar, ...]]:
    """The values each named knob may have. Raises Mistake on the first thing that is wrong."""
    found: dict[str, tuple[Scalar, ...]] = {}
    for one in conditions:
        read = condition(one, knobs)
        if read.knob in found:
            raise Mistake(f"{read.knob} stands there twice; name a knob once, with all its values")
        found[read.knob] = read.one_of
    return found


def coupling(value: object, knobs: Mapping[str, Knob]) -> Coupling:
    """Raises Mistake."""
    parts = fields(value, ("when", "then"))
    return Coupling(when=condition(parts["when"], knobs), then=condition(parts["then"], knobs))


def condition(value: object, knobs: Mapping[str, Knob]) -> Condition:
    """A knob and some of its values, each once. Raises Mistake."""
    parts = fields(value, ("knob", "values"))
    name = known(parts["knob"], "knob", knobs)
    chosen: list[Scalar] = []
    for one in array(parts["values"], f"values of {name}"):
        allowed = scalar(one, knobs[name])
        if allowed in chosen:
            raise Mistake(f"values of {name} list {shown(allowed)} twice")
        chosen.append(allowed)
    if not chosen:
        raise Mistake(f"values of {name} are empty; list those that are allowed")
    return Condition(knob=name, one_of=tuple(chosen))
