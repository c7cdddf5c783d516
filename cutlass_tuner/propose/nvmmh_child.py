"""The process that holds nvMatmulHeuristics: `python -m cutlass_tuner.propose.nvmmh_child`.

Reads one JSON object from stdin: `gpu` (a member of the library's enum of GPUs), `queries`
(`ops.hgemm.matmul_heuristics.Query` as objects) and `count`, the most answers to each. Writes one JSON line
to stdout: for each query the answers as objects (`Advice`), best first.

A process of its own because the library is native code that loads the CUDA driver.
"""

from __future__ import annotations

import importlib
import json
import sys
from typing import Any


def answers(gpu: str, queries: list[dict[str, Any]], count: int) -> list[list[dict[str, int]]]:
    """Of each query at most `count` kernels, best first."""
    library = importlib.import_module("nvMatmulHeuristics")
    # The flag and the discovery set, which is measurements of NVIDIA's, are what makes the order good.
    session = library.NvMatmulHeuristicsInterfaceEx(
        backend=library.NvMatmulHeuristicsTarget.CUTLASS3,
        flags=library.NvMatmulHeuristicsFlags.PERF_MODEL_BASED_AUTO_TUNING,
        load_discovery_implicitly=True,
        gpu=library.NvMatmulHeuristicsNvidiaGpu[gpu],
    )
    found = []
    for query in queries:
        layout = library.NvMatmulHeuristicsMatmulLayout[query["layout"]]
        problem = session.makeNvMatmulHeuristicsProblem(
            query["m"], query["n"], query["k"], layout, query["batch"]
        )
        ranked = session.get(problem, count, precision=query["precision"])
        found.append([_advice(one["kernel"]) for one in ranked])
    return found


def _advice(kernel: Any) -> dict[str, int]:
    return {
        "tile_m": kernel.cta_tile_m,
        "tile_n": kernel.cta_tile_n,
        "tile_k": kernel.cta_tile_k,
        "cluster_m": kernel.cluster_m,
        "cluster_n": kernel.cluster_n,
        "splits": kernel.split_k,
    }


if __name__ == "__main__":
    print(json.dumps(answers(**json.load(sys.stdin))))
