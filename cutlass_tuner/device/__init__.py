"""The measuring child: the only code that touches CUDA.

Nothing imports this package. It is started as `python -m cutlass_tuner.device`, reads one
`wire.Request` a line and writes one `wire.Reply` a line, on two inherited file descriptors.
"""
