"""What is remembered of every run, in segments that are bounded and rewritten whole.

    .holdfast/<job>/runs/<started ms>-<run id>/000000.jsonl     one JSON object a line
    .holdfast/<job>/runs/<started ms>-<run id>/000001.jsonl     …

The first segment holds how the run started and is kept as long as the run; of the others only
the newest are. A thread of its own writes, so that no batch waits for it, and what cannot be
written is dropped: losing records never stops a stream.
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
        """Take an event into the current segment, without secrets."""
        line = json.to_canonical(_remove_secrets(event)).encode() + b"\n"
        self._lines.append(line)
        self._size += len(line)

    def flush(self) -> None:
        """Write the current segment, and begin another when it is full or has told the start."""
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
        """Before anything is deleted: storage that refuses to must not make a segment endless."""
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


# What later runs compare letter by letter. The plan holds no secret: its options and targets are
# taken without; of an offset that seems to hold one nothing is kept.
_PLAN = "plan"
_OFFSETS = ("startOffset", "endOffset")


def _remove_secrets(event: Event) -> Json:
    """The only way into the records: whoever adds an event need not think of it."""
    own = {key: _redact_member(key, value) for key, value in event.items() if key != _PLAN}
    return {**own, **{key: value for key, value in event.items() if key == _PLAN}}


def _redact_member(name: str, value: Json) -> Json:
    if name in _OFFSETS:
        return value if redact.text(json.to_canonical(value)) == json.to_canonical(value) else None
    if isinstance(value, Sequence) and not isinstance(value, str) and not redact.is_secret(name):
        return [_redact_member("", one) for one in value]
    if isinstance(value, Mapping) and any(key in value for key in _OFFSETS):
        return {key: _redact_member(key, one) for key, one in value.items()}
    shown = redact.value({name: value})
    return shown[name] if isinstance(shown, Mapping) and name in shown else None


class Recorder:
    """Takes events from anywhere and writes them from one thread."""

    def __init__(self, *, flush_seconds: float) -> None:
        self._pause = flush_seconds
        self._queue: queue.SimpleQueue[Callable[[], RunLog | None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="holdfast-records", daemon=True)
        self._thread.start()

    def submit(self, task: Callable[[], RunLog | None]) -> None:
        """Run a task on the recorder's thread; the log that it returns is flushed soon."""
        self._queue.put(task)

    def close(self) -> None:
        """Write what is there, and end; waits a little, not for ever."""
        self._queue.put(None)
        self._thread.join(_CLOSE_SECONDS)

    def _run(self) -> None:
        going = True
        while going:
            dirty: dict[int, RunLog] = {}
            flush_at = time.monotonic() + self._pause
            while going and (left := flush_at - time.monotonic()) > 0:
                try:
                    task = self._queue.get(timeout=left)
                except queue.Empty:
                    break
                going = task is not None
                log = _run_task(task) if task is not None else None
                if log is not None:
                    dirty[id(log)] = log
            for log in dirty.values():
                _try_flush(log)


def _run_task(task: Callable[[], RunLog | None]) -> RunLog | None:
    try:
        return task()
    except Exception:  # a record that cannot be made must stop nothing
        return None


def _try_flush(log: RunLog) -> None:
    try:
        log.flush()
    except StorageUnavailable:
        return
