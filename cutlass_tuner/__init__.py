"""Search for the fastest CUTLASS kernel for each of your shapes, by measuring."""

__version__ = "0.1.0"
