"""Which process this is, and whether another one of this machine still runs."""

import os
import socket
from pathlib import Path

from holdfast.model.lease import Holder


def get_current() -> Holder:
    """This process, told apart from every other, also from a later one with the same number."""
    return Holder(host=socket.gethostname(), pid=os.getpid(), process=_identify(os.getpid()))


def is_dead(holder: Holder) -> bool:
    """Whether the process certainly no longer runs: only ever true of this host's own."""
    boot, _, _ = _identify(os.getpid()).rpartition("/")
    if holder.host != socket.gethostname() or not boot or not holder.process.startswith(f"{boot}/"):
        return False
    try:
        os.kill(holder.pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False  # somebody else's: whether it is the same process cannot be seen
    return _identify(holder.pid) != holder.process


def _identify(pid: int) -> str:
    """The boot of the machine, the process namespace and the start time of a process."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        namespace = Path("/proc/self/ns/pid").readlink()
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    state, started = stat.rpartition(")")[2].split()[0], stat.rpartition(")")[2].split()[19]
    return "" if state in "ZX" else f"{boot}/{namespace}/{started}"
