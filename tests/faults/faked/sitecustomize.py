"""Sleep for services under libfaketime: its `clock_nanosleep` fails for the monotonic clock, so Python can't sleep.

Python imports a module of this name at its start if the folder is on PYTHONPATH.
"""

from __future__ import annotations

import select
import time
from typing import SupportsIndex


def sleep(seconds: float | SupportsIndex, /) -> None:
    seconds = float(seconds)
    if seconds < 0:
        raise ValueError("sleep length must be non-negative")
    select.select([], [], [], seconds)


time.sleep = sleep
