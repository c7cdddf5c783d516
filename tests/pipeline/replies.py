"""Replies of a language model to a tune in the scripted tuner's small space, and folders of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

Json = Any

DEFAULT = {
    "tile_m": 128, "tile_n": 128, "tile_k": 64, "cluster_m": 2, "cluster_n": 1, "schedule": "cooperative",
    "stages": "auto", "epilogue": "tma", "scheduler": "persistent", "swap_ab": False,
}  # fmt: skip
LAUNCH = {
    "swizzle": 1, "raster": "heuristic", "splits": 1, "decomposition": "heuristic",
    "reduction": "deterministic",
}  # fmt: skip


def config(*launches: dict[str, Json], **knobs: Json) -> Json:
    """The space's default kernel but for these knobs."""
    return {"kernel": DEFAULT | knobs, "launches": [LAUNCH | launch for launch in launches]}


def idea(name: str, *configs: Json, **fields: Json) -> Json:
    """An idea about all three shapes."""
    said = {
        "id": name, "parent": "", "hypothesis": f"What {name} is about.", "bottleneck": "latency",
        "family": "tma_ws", "shapes": ["s1", "s2", "s3"], "expected": 1.1, "configs": list(configs),
        "allow": [], "couplings": [],
    }  # fmt: skip
    return said | fields


def reply(*ideas: Json, drop: Sequence[str] = ()) -> str:
    return json.dumps({"ideas": list(ideas), "drop": list(drop)})


def write(folder: Path, *replies: str) -> Path:
    """A folder of replies, one a round."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, text in enumerate(replies, start=1):
        (folder / f"{number:02d}-reply.json").write_text(text)
    return folder
