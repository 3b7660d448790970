"""What one batch consumed, or what lies between two batches -> text and JSON."""

from collections.abc import Iterator, Mapping

from holdfast.model.evidence import BatchDetail, BatchStatus
from holdfast.model.json import Json
from holdfast.report import document, redact
from holdfast.report.terminal import text
from holdfast.report.terminal.lines import STATUSES, Line, Part, Style, clean


def to_lines(detail: BatchDetail, *, compared: bool) -> Iterator[Line]:
    """Yield the lines of the report, without secrets."""
    return clean(_make_lines(detail, compared=compared))


def to_json(detail: BatchDetail, location: str, *, compared: bool) -> Json:
    """Return the report for programs, without secrets."""
    return redact.value(
        {
            "format": document.FORMAT,
            "location": location,
            "compared": compared,
            "after": detail.after,
            "batch": detail.batch,
            "committed": detail.standing in (BatchStatus.YES, BatchStatus.UNLOGGED),
            "sources": [document.source_to_json(source) for source in detail.sources],
            "settings_changed": {
                key: {"from": redact.setting(key, old), "to": redact.setting(key, new)}
                for key, (old, new) in detail.settings_changed.items()
            },
            "unreadable": [document.unreadable_to_json(file) for file in detail.unreadable],
        }
    )


def _make_lines(detail: BatchDetail, *, compared: bool) -> Iterator[Line]:
    status = Part(detail.standing.value, STATUSES[detail.standing])
    is_same_batch = compared and detail.after == detail.batch
    yield (Part(_format_range(detail, compared=compared)), status)
    for file in detail.unreadable:
        yield (Part(f"  {file.path}: {file.reason}", Style.BAD),)
    for source in () if is_same_batch else detail.sources:
        yield ()
        yield from text.format_source(source, every=True)
    if detail.settings_changed:
        yield ()
        yield (Part("Changed settings", Style.HEAD),)
        yield from _format_settings(detail.settings_changed)


def _format_range(detail: BatchDetail, *, compared: bool) -> str:
    """Return the range that the report is about; the status of the batch follows it."""
    if compared and detail.after == detail.batch:
        return f"batch {detail.batch} compared with itself, an empty range: "
    if compared:
        return f"from the end of batch {detail.after} to the end of batch {detail.batch}: "
    if detail.after is not None:
        return f"batch {detail.batch}, from the end of batch {detail.after}: "
    if detail.batch == 0:
        return f"batch {detail.batch}, from the beginning: "
    return f"batch {detail.batch}, whose start is unknown because the entry before it is gone: "


def _format_settings(changes: Mapping[str, tuple[str, str]]) -> Iterator[Line]:
    """Yield the settings that differ between two batches, but not the values of secrets."""
    for key, (old, new) in changes.items():
        values = redact.REDACTED if redact.is_secret(key) else f"{old or '-'} → {new or '-'}"
        yield (Part(f"  {key}: ", Style.DIM), Part(values, Style.CAREFUL))
