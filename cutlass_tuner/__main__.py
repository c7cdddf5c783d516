"""`python -m cutlass_tuner` is `cutlass-tuner`."""

import sys

from cutlass_tuner.cli import main

sys.exit(main())
