"""The strict reading of a proposer's reply: ideas whose every kernel is legal, and all that was refused.

A reply is foreign text. Item by item it is either taken as it stands or rejected with a reason that its
author gets to read; nothing is mended, and no text makes `read` raise.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from cutlass_tuner.ideas import Bottleneck, Coupling, Idea, Rejection
from cutlass_tuner.propose.configs import ConfigReader, Place
from cutlass_tuner.propose.fields import Mistake, array, fields, known, mapping, shown, string
from cutlass_tuner.propose.narrowing import coupling, narrowed
from cutlass_tuner.propose.rejections import Rejections
from cutlass_tuner.propose.schema import asked_knobs, shape_ids
from cutlass_tuner.propose.strict_json import parse
from cutlass_tuner.records import DeviceFacts, Problem, Scalar
from cutlass_tuner.space import FamilySpace, Space

FIELDS = (
    "id",
    "parent",
    "hypothesis",
    "bottleneck",
    "family",
    "shapes",
    "expected",
    "configs",
    "allow",
    "couplings",
)
HYPOTHESIS_CHARACTERS = 2000
LEAST_EXPECTED, MOST_EXPECTED = 0.1, 10.0
"""Speed-ups over the reference. No kernel reaches the upper one where the reference is worth beating, and the
sum of log(expected) decides whose turn it is: 1e308 would have all of them."""

_ID = re.compile(r"[a-z0-9][a-z0-9_.-]{0,39}")
_INVISIBLE = {"Cc", "Cf", "Cs", "Zl", "Zp"}
"""Unicode's categories of controls, formats (which reorder or hide text), lone surrogates and separators."""


@dataclass(frozen=True)
class Reading:
    """What is taken over of a reply. `dropped` are ids of earlier ideas that it gives up."""

    ideas: tuple[Idea, ...] = ()
    dropped: tuple[str, ...] = ()
    rejected: tuple[Rejection, ...] = ()


def read(
    text: str,
    space: Space,
    problems: Sequence[Problem],
    device: DeviceFacts,
    *,
    known: Mapping[str, str],
    ideas: Collection[str],
) -> Reading:
    """A reply to `reply_schema(space, problems)`. Never raises, whatever the text is.

    `known` maps the key of every kernel that is built or proposed already to who has it, in words ("built:
    1.03 on s4"); `ideas` are the ids of all earlier ideas.
    """
    try:
        reply = fields(parse(text), ("ideas", "drop"))
        given, drop = array(reply["ideas"], "ideas"), array(reply["drop"], "drop")
    except Mistake as mistake:
        return Reading(rejected=(Rejection(idea="", what="the reply", reason=str(mistake)),))
    rejections = Rejections()
    reader = _IdeaReader(space, problems, ConfigReader(space, device, known, rejections), rejections, ideas)
    for number, one in enumerate(rejections.within("ideas", given), 1):
        reader.read(number, one)
    dropped = _dropped(drop, ideas, rejections)
    return Reading(tuple(reader.taken), dropped, rejections.all())


class _IdeaReader:
    """Reads one idea after the other into `taken`."""

    def __init__(
        self,
        space: Space,
        problems: Sequence[Problem],
        configs: ConfigReader,
        rejections: Rejections,
        earlier: Collection[str],
    ) -> None:
        self.taken: list[Idea] = []
        self._space, self._shapes = space, shape_ids(problems)
        self._configs, self._rejections = configs, rejections
        self._earlier, self._met = set(earlier), set[str]()

    def read(self, number: int, given: object) -> None:
        try:
            said = mapping(given, FIELDS)
            name = self._new_id(said)
        except Mistake as mistake:
            self._rejections.add("", f"idea {number}", mistake)
            return
        try:
            self.taken.append(self._idea(name, said))
        except Mistake as mistake:
            self._rejections.add(name, "the idea", mistake)
        self._met.add(name)

    def _new_id(self, given: Mapping[str, object]) -> str:
        """The id that rejections may stand under. Raises Mistake where it is none or another idea's."""
        if "id" not in given:
            raise Mistake("no field id")
        name = string(given["id"], "id")
        if not _ID.fullmatch(name):
            raise Mistake(
                f"id is {shown(name)}; use 1 to 40 of a-z, 0-9, '_', '.' and '-', a letter or digit first"
            )
        if name in self._earlier or name in self._met:
            where = "an earlier idea" if name in self._earlier else "an idea above"
            raise Mistake(f"id is {shown(name)}, which is {where}; give each idea an id of its own")
        return name

    def _idea(self, name: str, given: dict[str, object]) -> Idea:
        """Raises Mistake for an idea that is rejected as a whole."""
        parts = fields(given, FIELDS)
        family = self._space.family(known(parts["family"], "family", self._space.families))
        targets = self._targets(parts["shapes"])
        said: dict[str, Any] = {
            "id": name,
            "parent": self._parent(parts["parent"]),
            "hypothesis": _hypothesis(parts["hypothesis"]),
            "bottleneck": known(parts["bottleneck"], "bottleneck", get_args(Bottleneck)),
            "targets": tuple(problem.key for problem in targets),
            "expected": _expected(parts["expected"]),
            "family": family.name,
        }
        allow, pairs = array(parts["allow"], "allow"), array(parts["couplings"], "couplings")
        configs = array(parts["configs"], "configs")
        suggestions = self._configs.read(Place(name, family, targets), configs)
        allowed, couplings = self._search_space(name, family, allow, pairs)
        if not (suggestions or allowed or couplings):
            raise Mistake("no config and no narrowed space of it stands")
        return Idea(**said, suggestions=suggestions, narrowed=allowed, couplings=couplings)

    def _parent(self, value: object) -> str:
        name = string(value, "parent")
        if name == "" or name in self._earlier or any(name == idea.id for idea in self.taken):
            return name
        why = "which was rejected" if name in self._met else "no earlier idea"
        raise Mistake(f'parent is {shown(name)}, {why}; use "" for none')

    def _targets(self, value: object) -> tuple[Problem, ...]:
        found: dict[str, Problem] = {}
        for one in array(value, "shapes"):
            name = known(one, "a shape", self._shapes)
            if name in found:
                raise Mistake(f"shapes list {name} twice")
            found[name] = self._shapes[name]
        if not found:
            raise Mistake("shapes are empty; name those the idea is for")
        return tuple(found.values())

    def _search_space(
        self, idea: str, family: FamilySpace, allow: Sequence[object], pairs: Sequence[object]
    ) -> tuple[dict[str, tuple[Scalar, ...]], tuple[Coupling, ...]]:
        """What the sampler may choose from. Nothing at all where `allow` is wrong: couplings alone would
        open the whole space, which is not what was said."""
        knobs = asked_knobs(family)
        try:
            allowed = narrowed(allow, knobs)
        except Mistake as mistake:
            without = "; its couplings are not taken without it" if pairs else ""
            self._rejections.add(idea, "allow", f"{mistake}{without}")
            return {}, ()
        couplings = []
        for number, pair in enumerate(self._rejections.within("couplings", pairs), 1):
            try:
                couplings.append(coupling(pair, knobs))
            except Mistake as mistake:
                self._rejections.add(idea, f"coupling {number}", mistake)
        return allowed, tuple(couplings)


def _hypothesis(value: object) -> str:
    text = string(value, "hypothesis")
    if len(text) > HYPOTHESIS_CHARACTERS:
        raise Mistake(f"hypothesis has {len(text)} characters; use {HYPOTHESIS_CHARACTERS} at most")
    for character in text:
        if character not in "\n\t" and unicodedata.category(character) in _INVISIBLE:
            raise Mistake(f"hypothesis holds the control character {shown(character)}; use plain text")
    return text


def _expected(value: object) -> float:
    if (
        isinstance(value, bool)
        or not isinstance(value, (int, float))
        or not LEAST_EXPECTED <= value <= MOST_EXPECTED
    ):
        bounds = f"{LEAST_EXPECTED:g} to {MOST_EXPECTED:g}"
        raise Mistake(f"expected is {shown(value)}; give a speed-up from {bounds}, like 1.05")
    return float(value)


def _dropped(given: Sequence[object], earlier: Collection[str], rejections: Rejections) -> tuple[str, ...]:
    dropped: list[str] = []
    for one in rejections.within("drop", given):
        if not isinstance(one, str) or one not in earlier:
            rejections.add("", "drop", f"{shown(one)} is no earlier idea")
        elif one in dropped:
            rejections.add("", "drop", f"{shown(one)} stands there twice")
        else:
            dropped.append(one)
    return tuple(dropped)
