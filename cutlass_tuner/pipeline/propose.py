"""`propose`: what a language model is asked at the start of a tune, written to a file."""

from __future__ import annotations

from pathlib import Path

from cutlass_tuner import settings
from cutlass_tuner.errors import UserError
from cutlass_tuner.ops import registry
from cutlass_tuner.options import ProposeOptions
from cutlass_tuner.pipeline import setup
from cutlass_tuner.pipeline.past import nearby
from cutlass_tuner.pipeline.show import open_study
from cutlass_tuner.propose.context import Context, Past
from cutlass_tuner.propose.prompt import request
from cutlass_tuner.propose.request import as_markdown


def propose(options: ProposeOptions) -> str:
    """Write the first request to `options.out`; what to do with it, in one line."""
    op = registry.op(options.op)
    problems = op.read_shapes(options.shapes)
    space = setup.space(op, options.arch, options.space)
    device = op.nominal_device(options.arch)
    past: tuple[Past, ...] = ()
    if options.like is not None:
        header = open_study(options.like, options.studies).header
        if (header.op, header.device.arch) != (op.name, options.arch):
            raise UserError(
                f"--like {options.like}: it is of {header.op} on {header.device.arch}, not of {op.name} on "
                f"{options.arch}"
            )
        device = header.device
        if options.history:
            roots = [options.studies, settings.data_dir("studies")]
            past = nearby(roots, header.model_copy(update={"name": ""}), problems)
    setup.check_fits(op, problems, device)
    space.candidates(problems, device)  # raises where no kernel is legal: no answer could be right
    context = Context(op, space, tuple(problems), device, "cold", past)
    text = as_markdown(request(context, 1, None))
    _write(options.out, text)
    return (
        f"{options.out}: {len(text):,} characters for any language model; save its answer as 01-reply.json "
        "in a folder DIR and give that to tune as --llm replay:DIR"
    )


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}; choose another file with --out") from error
