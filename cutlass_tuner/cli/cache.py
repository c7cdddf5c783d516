"""`cutlass-tuner cache`: the built kernels on this machine."""

from __future__ import annotations

from typing import Annotated

import typer

from cutlass_tuner.cli.values import duration_s
from cutlass_tuner.errors import UserError

app = typer.Typer(rich_markup_mode=None, help="Show or prune the cache of built kernels.")


@app.command()
def show() -> None:
    """Print where the cache is, what it holds and how large it is."""
    from cutlass_tuner import pipeline

    print(pipeline.cache_show())


@app.command()
def prune(
    older_than: Annotated[
        str | None,
        typer.Option("--older-than", metavar="TIME", help="Remove builds not used for this long, like 30d."),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Remove every build.")] = False,
) -> None:
    """Remove builds from the cache; a removed kernel is built again when it is needed."""
    if (older_than is None) != everything:
        raise UserError("cache prune needs either --older-than TIME, like 30d, or --all")
    days = None if older_than is None else duration_s(older_than, "--older-than") / 86400

    from cutlass_tuner import pipeline

    print(pipeline.cache_prune(older_than_days=days, everything=everything))
