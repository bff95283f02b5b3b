"""Description of the machine that figures were measured on, for readers to judge them."""

from __future__ import annotations

import os
import platform
from pathlib import Path

__all__ = ["machine"]


def machine() -> dict[str, str | int]:
    """Model of the processor, cores, memory, interpreter. No host name."""
    model = platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        named = [
            line.partition(":")[2].strip() for line in info.read_text().splitlines() if line.startswith("model name")
        ]
        model = named[0] if named else model
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    return {
        "processor": model,
        "cores": os.cpu_count() or 1,
        "memory_gib": round(memory),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release().partition('-')[0]}",
    }
