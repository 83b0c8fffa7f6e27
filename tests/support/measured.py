"""What the kernel knows about a process that runs."""

import os
from pathlib import Path


def measured(process: int, name: str) -> int:
    """A line of its status.

    Args:
        process: its number.
        name: of the line: Threads, VmRSS in KiB, or VmHWM, the most that VmRSS ever was.
    """
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith(f"{name}:")))


def forget_peak(process: int) -> None:
    """Let VmHWM begin anew."""
    Path(f"/proc/{process}/clear_refs").write_text("5")


def processor_seconds(process: int) -> float:
    """What it took of the processor's time."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
