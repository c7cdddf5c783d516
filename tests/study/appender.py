"""A process that appends events to a study and writes down, elsewhere, each one that `append` returned from.

Arguments: the studies folder, the tests folder, the log. It is killed at a random instant.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path


def main() -> None:
    sys.path.insert(0, sys.argv[2])
    from cutlass_tuner.study import Study
    from study.events import P1, built, header, measured

    log = os.open(sys.argv[3], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    with Study.open_or_create(Path(sys.argv[1]), header(), [P1]) as study:
        number = len(study.events())
        os.write(log, b"open\n")
        while True:
            # Lines of very different lengths, so that a kill finds writes of every size.
            long = (12.345678,) * (1 + number % 7 * 400)
            event = measured(number, us=long, reference_us=long) if number % 2 else built(number)
            study.append(event)
            os.write(log, f"{number}\n".encode())
            number += 1


if __name__ == "__main__":
    main()
