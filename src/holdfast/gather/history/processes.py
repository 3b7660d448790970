"""The identity of this process, and whether another process on this machine is still running."""

import os
import socket
from pathlib import Path

from holdfast.model.lease import Holder


def get_current() -> Holder:
    """Return the identity of this process; a later process with the same number has another."""
    return Holder(host=socket.gethostname(), pid=os.getpid(), process=_identify(os.getpid()))


def is_dead(holder: Holder) -> bool:
    """Return whether the process has certainly ended; never true for a process on another host."""
    boot, _, _ = _identify(os.getpid()).rpartition("/")
    if holder.host != socket.gethostname() or not boot or not holder.process.startswith(f"{boot}/"):
        return False
    try:
        os.kill(holder.pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False  # of another user: it may or may not be the same process
    return _identify(holder.pid) != holder.process


def _identify(pid: int) -> str:
    """Return the boot id, the process namespace and the start time of a process."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        namespace = Path("/proc/self/ns/pid").readlink()
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    state, started = stat.rpartition(")")[2].split()[0], stat.rpartition(")")[2].split()[19]
    return "" if state in "ZX" else f"{boot}/{namespace}/{started}"
