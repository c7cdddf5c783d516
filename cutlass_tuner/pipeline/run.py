"""`run`: one hand-written config on one problem, every stage shown."""

from __future__ import annotations

from typing import NamedTuple

from cutlass_tuner.errors import UserError
from cutlass_tuner.ops import registry
from cutlass_tuner.options import RunOptions, SpaceOptions
from cutlass_tuner.pipeline import finals, setup
from cutlass_tuner.pipeline.bench import Bench
from cutlass_tuner.records import Build, Failure, LaunchConfig, Measurement, Problem, Readback
from cutlass_tuner.report import tables
from cutlass_tuner.statistics import median_us, paired
from cutlass_tuner.wire import Entry, Timed


class Ran(NamedTuple):
    """What `run` found. `right`: it was built, it ran, and its answer was right."""

    text: str
    right: bool


def run(options: RunOptions) -> Ran:
    """Legality with reasons, source, flags, registers and spills, time, error, ratio."""
    op = registry.op(options.op)
    problem = op.problem(options.extents, options.layout)
    found = setup.toolchain(options.toolchain)
    arch = next(iter(op.spaces))
    space = setup.space(op, arch, SpaceOptions(options.space_file, options.family))
    device = op.nominal_device(arch)
    kernel_knobs, launch_knobs = space.split(space.parse_all(options.knobs))
    given = space.family().knobs_for(problem)
    kernel = space.effective(space.kernel(**{**given, **kernel_knobs}), device)
    asked = space.launch(**launch_knobs)
    legality = space.check(kernel, asked, problem, device)  # before folding, which may hide what is wrong
    launch = space.effective_launch(kernel, asked, problem, device)
    lines = [f"problem  {problem.key}", f"kernel   {kernel.key}", f"launch   {launch.key}"]
    lines += ["", tables.legality(legality.illegal, legality.unwise)]
    emitter = setup.emitter(op)
    if options.source:
        lines += ["", emitter.device_source([kernel], op.contract)]
    if legality.illegal:
        return Ran("\n".join([*lines, "", "not built: it is illegal"]), False)
    builder = setup.builder(found, arch, op, options.toolchain)
    (build,) = builder.build([kernel])
    lines += ["", f"flags    {' '.join(builder.flags)}"]
    if isinstance(build, Failure):
        return Ran("\n".join([*lines, f"build    failed: {build.reason}", build.detail]), False)
    lines.append(_build_line(build))
    said, right = _measured(options, op, problem, build, launch)
    return Ran("\n".join([*lines, *said]), right)


def _build_line(build: Build) -> str:
    warnings = "".join(f"; {warning}" for warning in build.warnings)
    return (
        f"build    {build.registers} registers, {build.spill_bytes} bytes spilled, {build.smem_bytes} bytes "
        f"of shared memory, {build.stages} stages, {build.threads} threads{warnings}\n"
        f"cubin    {build.cubin}"
    )


def _ran_as(back: Readback) -> str:
    """What was launched; of the scheduler only what it has."""
    scheduler = {"swizzle": back.swizzle, "raster": back.raster, "splits": back.splits}
    told = "".join(f"{name} {value}, " for name, value in scheduler.items() if value is not None)
    return (
        f"ran as   grid {back.grid}, cluster {back.cluster}, {told}workspace {back.workspace_bytes} bytes "
        f"({back.zeroed_bytes} zeroed)"
    )


def _measured(
    options: RunOptions,
    op: registry.Op,
    problem: Problem,
    build: Build,
    launch: LaunchConfig,
) -> tuple[list[str], bool]:
    with Bench(op, options.l2, options.gpu, setup.child_log()) as bench:
        try:
            bench.describe()
        except UserError as error:
            return ["", f"not run: {error}"], False
        entries: list[Entry] = [bench.reference(problem), bench.kernel_entry(build, launch)]
        spent = finals.effort(op, problem)
        result = bench.contest(problem, entries, spent.rounds, steady_s=spent.steady_s, check_after=True)
        if isinstance(result, Failure):
            return ["", f"run      failed: {result.reason}", result.detail], False
        measured = bench.measurement(build.kernel, launch, problem, result, 1)
        if not isinstance(measured, Measurement):
            return ["", f"run      refused at {measured.stage}: {measured.reason}"], False
        theirs = result.entries[0]
        assert isinstance(theirs, Timed)
        pair = paired(measured.samples_us, theirs.samples_us)
        assert pair is not None
        us, their_us = median_us(measured.samples_us), median_us(theirs.samples_us)
        verdict = "right" if measured.verdict.passed else "WRONG: " + "; ".join(measured.verdict.reasons)
        interval = "" if pair.low is None else f" [{pair.low:.3f}, {pair.high:.3f}]"
        said = [
            _ran_as(measured.readback),
            "",
            f"answer   {verdict}; largest error {measured.evidence.max_abs_error:.3g}, "
            f"{measured.evidence.error_over_bound:.2f} of the bound",
            f"time     {us:.4g} us, {op.flops(problem) / us / 1e6:.1f} TFLOP/s (L2 {options.l2})",
            f"ratio    {pair.ratio:.3f}{interval} of {op.reference_call}'s {their_us:.4g} us, "
            f"{pair.n} interleaved pairs (above 1 = ours is faster)",
        ]
        return said, measured.verdict.passed
