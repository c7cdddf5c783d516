"""Paths, environment variables and limits: everything read from outside is read here, once.

Nothing here touches the GPU or makes a folder; whoever writes a file makes its folder.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent


def data_dir(kind: str) -> Path:
    """The shipped folder `kind` ("spaces" or "studies").

    A wheel carries it inside the package; a checkout (also `pip install -e`) has it beside the
    package, because hatch's force-include does not apply to editable installs.
    """
    shipped = PACKAGE / "_data" / kind
    return shipped if shipped.is_dir() else PACKAGE.parent / kind


@dataclass(frozen=True)
class Settings:
    """What the environment says. `None` means the variable is not set.

    CUTLASS_TUNER_CACHE    where built kernels are kept (default ~/.cache/cutlass-tuner)
    CUTLASS_TUNER_STUDIES  where studies are written (default ./studies)
    CUTLASS_PATH           a CUTLASS checkout to build with instead of the package's headers
    CUDA_HOME, CUDA_PATH   where a CUDA toolkit stands
    ANTHROPIC_API_KEY, ANTHROPIC_AUTH_TOKEN
                           the language model's credential: whether there is one, never its value, which
                           only the SDK reads
    """

    cache_dir: Path
    studies_dir: Path
    cutlass_dir: Path | None
    cuda_home: Path | None
    llm_credential: bool


def _path(name: str) -> Path | None:
    value = os.environ.get(name)
    return Path(value).expanduser() if value else None


@cache
def settings() -> Settings:
    """The settings of this process, read on first use."""
    xdg = _path("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Settings(
        cache_dir=_path("CUTLASS_TUNER_CACHE") or xdg / "cutlass-tuner",
        studies_dir=_path("CUTLASS_TUNER_STUDIES") or Path("studies"),
        cutlass_dir=_path("CUTLASS_PATH"),
        cuda_home=_path("CUDA_HOME") or _path("CUDA_PATH"),
        llm_credential=any(os.environ.get(name) for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")),
    )
