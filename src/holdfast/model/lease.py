"""The lease of the driver that runs a job."""

from dataclasses import dataclass

from holdfast.model.ids import Epoch, JobName


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """One process on one host; `process` differs for a later process with the same pid."""

    host: str
    pid: int
    process: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """One driver's right to run a job, valid until its heartbeat is older than `ttl_ms`."""

    job: JobName
    epoch: Epoch
    holder: Holder
    since_ms: int
    heartbeat_ms: int
    ttl_ms: int
    released: bool
    token: str = ""
    """Unique to one acquisition; empty in leases of versions without tokens."""

    def is_expired(self, now_ms: int) -> bool:
        """Return whether the driver released the lease or has been silent for too long."""
        return self.released or now_ms - self.heartbeat_ms > self.ttl_ms
