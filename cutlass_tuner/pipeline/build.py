"""`build`: compile without a GPU, as far as a tune would on its own before it has measured anything."""

from __future__ import annotations

import sys

from cutlass_tuner.build.batches import batches
from cutlass_tuner.build.pool import Pool, default_jobs
from cutlass_tuner.errors import UserError
from cutlass_tuner.events import KernelBuilt, KernelFailed
from cutlass_tuner.ops import registry
from cutlass_tuner.options import BuildOptions
from cutlass_tuner.pipeline import setup
from cutlass_tuner.pipeline.searching import BATCH, SEEDS
from cutlass_tuner.records import Build, Proposal
from cutlass_tuner.report import tables


def build(options: BuildOptions) -> str:
    """Build the starting kernels for the shapes, or the default one; a table of what came of each."""
    op = registry.op(options.op)
    space = setup.space(op, options.arch, options.space)
    device = op.nominal_device(options.arch)
    if options.shapes is not None:
        problems = op.read_shapes(options.shapes)
        candidates = space.candidates(problems, device)
        estimate_us = op.prior(candidates, problems, device)
        proposals = op.seeds(space, candidates, estimate_us, problems, device)[:SEEDS]
    else:
        kernel = space.effective(space.kernel(), device)
        proposals = [Proposal(kernel=kernel, source="default")]
    proposals = proposals[: options.limit]
    if not proposals:
        raise UserError("no kernel of this space is legal for these shapes")
    emitter = setup.emitter(op)
    found = setup.toolchain(options.toolchain)
    builder = setup.builder(found, options.arch, op, options.toolchain)
    sources = {p.kernel.key: p for p in proposals}
    events: dict[str, KernelBuilt | KernelFailed] = {}
    with Pool(builder, options.toolchain.jobs or default_jobs()) as pool:
        for batch in batches([p.kernel for p in proposals], emitter, BATCH):
            pool.submit(batch)
        for kernel, outcome in pool.drain():
            proposal = sources[kernel.key]
            if isinstance(outcome, Build):
                events[kernel.key] = KernelBuilt(proposal=proposal, build=outcome, at_s=0.0)
            else:
                events[kernel.key] = KernelFailed(proposal=proposal, failure=outcome, at_s=0.0)
            done = f"{len(events)} of {tables.counted(len(proposals), 'kernel')} done"
            print(done, file=sys.stderr, flush=True)
    ordered = [events[p.kernel.key] for p in proposals]
    failed = sum(isinstance(event, KernelFailed) for event in ordered)
    default = space.effective(space.kernel(), device)
    built = tables.counted(len(ordered) - failed, "kernel")
    head = f"{built} in the cache at {setup.cache().root}, {failed} failed"
    return f"{tables.builds(ordered, default)}\n\n{head}"
