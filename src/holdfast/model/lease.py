"""Who runs a job: the lease of one driver."""

from dataclasses import dataclass

from holdfast.model.ids import Epoch, JobName


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """One process on one host; `process` tells it from a later one with the same number."""

    host: str
    pid: int
    process: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """One driver's right to run a job, good until its heartbeat is older than `ttl_ms`."""

    job: JobName
    epoch: Epoch
    holder: Holder
    since_ms: int
    heartbeat_ms: int
    ttl_ms: int
    released: bool
    token: str = ""
    """Unique to one acquisition; empty in leases of versions that had none."""

    def expired(self, now_ms: int) -> bool:
        """Whether its driver has given it up or has not been heard of for too long."""
        return self.released or now_ms - self.heartbeat_ms > self.ttl_ms
