"""Small tensors: one thread is faster than handing them round."""

from __future__ import annotations

import torch

torch.set_num_threads(1)
