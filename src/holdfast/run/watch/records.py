"""Run records on disk, in segments of limited size. Each write replaces a whole segment.

    .holdfast/<job>/runs/<started ms>-<run id>/000000.jsonl     one JSON object per line
    .holdfast/<job>/runs/<started ms>-<run id>/000001.jsonl     …

The first segment describes the start of the run and is kept as long as the run. Only the newest of
the other segments are kept. A separate thread writes them, so that no batch waits. A record that
cannot be written is dropped: losing records never stops a stream.
"""

import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from holdfast.errors import StorageUnavailable
from holdfast.model import json
from holdfast.model.json import Json
from holdfast.report import redact
from holdfast.storage import Store

SEGMENT_BYTES = 256 << 10
KEPT_SEGMENTS = 8
KEPT_RUNS = 50
_CLOSE_SECONDS = 5.0

Event = Mapping[str, Json]


class RunLog:
    """The records of one run of one job."""

    def __init__(self, store: Store, job: str, started_ms: int, run_id: str) -> None:
        self._store = store
        self._runs = f".holdfast/{job}/runs"
        self._folder = f"{self._runs}/{started_ms:013d}-{run_id}"
        self._segment = 0
        self._lines: list[bytes] = []
        self._size = 0

    def add(self, event: Event) -> None:
        """Add an event to the current segment, without secrets."""
        line = json.to_canonical(_remove_secrets(event)).encode() + b"\n"
        self._lines.append(line)
        self._size += len(line)

    def flush(self) -> None:
        """Write the current segment; begin a new segment if it is full or contains the start."""
        name = f"{self._folder}/{self._segment:06d}.jsonl"
        try:
            self._store.write(name, b"".join(self._lines))
        except StorageUnavailable:
            if self._size >= SEGMENT_BYTES:
                self._begin_segment()
            raise
        if self._segment == 0 or self._size >= SEGMENT_BYTES:
            self._begin_segment()
            self._prune_segments()
            if self._segment == 1:
                self._prune_runs()

    def _begin_segment(self) -> None:
        """Begin a new segment.

        Call this before old segments are deleted: if the storage refuses to delete, the current
        segment must not grow without limit.
        """
        self._segment += 1
        self._lines.clear()
        self._size = 0

    def _prune_segments(self) -> None:
        stale = self._segment - KEPT_SEGMENTS
        if stale > 0:
            self._store.delete(f"{self._folder}/{stale:06d}.jsonl")

    def _prune_runs(self) -> None:
        for run in self._store.names(self._runs)[:-KEPT_RUNS]:
            for segment in self._store.names(f"{self._runs}/{run}"):
                self._store.delete(f"{self._runs}/{run}/{segment}")


# Later runs compare the plan and the offsets byte for byte, so they must not be redacted in part.
# The plan contains no secrets: its options and targets are redacted when it is taken. An offset
# that seems to contain a secret is not recorded.
_PLAN = "plan"
_OFFSETS = ("startOffset", "endOffset")


def _remove_secrets(event: Event) -> Json:
    """Return the event without secrets. Every event passes here, so callers need not redact."""
    redacted = {key: _redact_member(key, value) for key, value in event.items() if key != _PLAN}
    return {**redacted, **{key: value for key, value in event.items() if key == _PLAN}}


def _redact_member(name: str, value: Json) -> Json:
    if name in _OFFSETS:
        return value if redact.text(json.to_canonical(value)) == json.to_canonical(value) else None
    if isinstance(value, Sequence) and not isinstance(value, str) and not redact.is_secret(name):
        return [_redact_member("", member) for member in value]
    if isinstance(value, Mapping) and any(key in value for key in _OFFSETS):
        return {key: _redact_member(key, member) for key, member in value.items()}
    redacted = redact.value({name: value})
    return redacted[name] if isinstance(redacted, Mapping) and name in redacted else None


class Recorder:
    """The one thread that writes run records; any thread may submit events."""

    def __init__(self, *, flush_seconds: float) -> None:
        self._pause = flush_seconds
        self._queue: queue.SimpleQueue[Callable[[], RunLog | None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="holdfast-records", daemon=True)
        self._thread.start()

    def submit(self, task: Callable[[], RunLog | None]) -> None:
        """Run a task on the recorder's thread; the log that it returns is flushed soon."""
        self._queue.put(task)

    def close(self) -> None:
        """Write the remaining records and end the thread; wait for it only a few seconds."""
        self._queue.put(None)
        self._thread.join(_CLOSE_SECONDS)

    def _run(self) -> None:
        is_open = True
        while is_open:
            dirty: dict[int, RunLog] = {}
            flush_at = time.monotonic() + self._pause
            while is_open and (left := flush_at - time.monotonic()) > 0:
                try:
                    task = self._queue.get(timeout=left)
                except queue.Empty:
                    break
                is_open = task is not None
                log = _run_task(task) if task is not None else None
                if log is not None:
                    dirty[id(log)] = log
            for log in dirty.values():
                _try_flush(log)


def _run_task(task: Callable[[], RunLog | None]) -> RunLog | None:
    try:
        return task()
    except Exception:  # a record that cannot be made must not stop a stream
        return None


def _try_flush(log: RunLog) -> None:
    try:
        log.flush()
    except StorageUnavailable:
        return
