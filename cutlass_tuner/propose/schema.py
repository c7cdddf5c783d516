"""The JSON schema a proposer answers in, generated from an op's space: nothing free-form reaches a compiler.

It keeps to what servers of structured output support: every object closed and complete, no bounds, no
recursion. Whatever a schema of that kind cannot say, `reply.read` checks.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, get_args

from cutlass_tuner.ideas import Bottleneck
from cutlass_tuner.records import Problem, Scalar
from cutlass_tuner.space import FamilySpace, Knob, Space

Schema = dict[str, Any]

_STRING: Schema = {"type": "string"}
_JSON_TYPES = {bool: "boolean", int: "integer", str: "string"}


def shape_ids(problems: Sequence[Problem]) -> dict[str, Problem]:
    """What a reply calls the problems, in their order: "s1" is the first."""
    return {f"s{number}": problem for number, problem in enumerate(problems, 1)}


def asked_knobs(family: FamilySpace) -> dict[str, Knob]:
    """The compile-time knobs a reply chooses, in the space's order: each kernel is made with its targets' own
    values of those that a problem decides (`FamilySpace.given`)."""
    return {name: knob for name, knob in family.kernel.items() if name not in family.given}


def reply_schema(space: Space, problems: Sequence[Problem]) -> Schema:
    """The schema of a reply about these problems. Equal spaces and as many problems give equal schemas."""
    definitions = {"shape": _enum(tuple(shape_ids(problems))), "bottleneck": _enum(get_args(Bottleneck))}
    for family in space.families.values():
        definitions |= _definitions(family)
    ideas = [_ref("idea", family) for family in space.families]
    reply = _object({"ideas": _array({"anyOf": ideas}), "drop": _array(_STRING)})
    return {**reply, "$defs": definitions}


def digest(schema: Mapping[str, Any]) -> str:
    """Sixteen hex digits naming a schema, whatever the order of its keys."""
    text = json.dumps(schema, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _definitions(family: FamilySpace) -> dict[str, Schema]:
    """What is shared by all ideas of a family: its kernels, launches and conditions, and the idea itself."""
    name, knobs = family.name, asked_knobs(family)
    condition = _ref("condition", name)
    values = {knob.name: _enum(knob.values) for knob in knobs.values()}
    conditions = [
        _object({"knob": _enum((knob,)), "values": _array(allowed)}) for knob, allowed in values.items()
    ]
    config = {"kernel": _ref("kernel", name), "launches": _array(_ref("launch", name))}
    idea = {
        "id": _STRING,
        "parent": _STRING,
        "hypothesis": _STRING,
        "bottleneck": _ref("bottleneck"),
        "family": _enum((name,)),
        "shapes": _array(_ref("shape")),
        "expected": {"type": "number"},
        "configs": _array(_object(config)),
        "allow": _array(condition),
        "couplings": _array(_object({"when": condition, "then": condition})),
    }
    return {
        f"kernel_{name}": _object(values),
        f"launch_{name}": _object({knob.name: _enum(knob.values) for knob in family.launch.values()}),
        f"condition_{name}": {"anyOf": conditions},
        f"idea_{name}": _object(idea),
    }


def _object(properties: Mapping[str, Schema]) -> Schema:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


def _array(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _enum(values: Sequence[Scalar]) -> Schema:
    """Values as the space has them; a knob that mixes numbers and words ("auto") has no one type."""
    types = {type(value) for value in values}
    typed = {"type": _JSON_TYPES[types.pop()]} if len(types) == 1 else {}
    return {**typed, "enum": list(values)}


def _ref(kind: str, family: str = "") -> Schema:
    return {"$ref": f"#/$defs/{kind}_{family}" if family else f"#/$defs/{kind}"}
