"""fp16 GEMM with fp32 accumulation: problems, legality, shared memory, folding, first guesses."""
