"""Which kernels to compile together. One translation unit parses CUTLASS once and shares what its
kernels have in common: measured figures stand in docs/building.md."""

from __future__ import annotations

from collections.abc import Sequence

from cutlass_tuner.build.sources import Sources
from cutlass_tuner.records import KernelConfig


def batches(
    kernels: Sequence[KernelConfig], emitter: Sources, limit: int, workers: int = 1
) -> list[list[KernelConfig]]:
    """Every kernel once (repeats dropped), in batches of at most `limit`; siblings stay together.

    Kernels with few siblings share a unit with others: less is shared, but still more than in a unit
    of their own. With `workers` compilers at hand no batch is larger than what keeps all of them busy.
    The batches come in the order of their first kernels.
    """
    if limit < 1 or workers < 1:
        raise ValueError(f"batches of {limit} for {workers} compilers")
    unique = list({kernel.key: kernel for kernel in kernels}.values())
    if not unique:
        return []
    size = min(limit, -(-len(unique) // workers))
    siblings: dict[str, list[KernelConfig]] = {}
    for kernel in unique:
        siblings.setdefault(emitter.batch_key(kernel), []).append(kernel)
    full: list[list[KernelConfig]] = []
    rest: list[list[KernelConfig]] = []
    for group in siblings.values():
        cuts = [group[start : start + size] for start in range(0, len(group), size)]
        full += [cut for cut in cuts if len(cut) == size]
        rest += [cut for cut in cuts if len(cut) < size]
    made = full + _packed(rest, size)
    place = {kernel.key: index for index, kernel in enumerate(unique)}
    return sorted(made, key=lambda batch: min(place[kernel.key] for kernel in batch))


def _packed(groups: list[list[KernelConfig]], size: int) -> list[list[KernelConfig]]:
    """First fit, largest first, no group cut."""
    bins: list[list[KernelConfig]] = []
    for group in sorted(groups, key=len, reverse=True):
        room = next((bin_ for bin_ in bins if len(bin_) + len(group) <= size), None)
        if room is None:
            bins.append(list(group))
        else:
            room += group
    return bins
