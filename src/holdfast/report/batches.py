"""What one batch consumed, or what lies between two -> text and JSON."""

from collections.abc import Iterator

from holdfast.model.evidence import BatchDetail, BatchStatus
from holdfast.model.json import Json
from holdfast.report import document, redact
from holdfast.report.terminal import text
from holdfast.report.terminal.text import Line, Part, Style


def to_lines(detail: BatchDetail, *, compared: bool) -> Iterator[Line]:
    """The lines of the report, without secrets."""
    return text.clean(_make_lines(detail, compared=compared))


def to_json(detail: BatchDetail, location: str, *, compared: bool) -> Json:
    """The same for programs."""
    return redact.value(
        {
            "format": document.FORMAT,
            "location": location,
            "compared": compared,
            "after": detail.after,
            "batch": detail.batch,
            "committed": detail.standing in (BatchStatus.YES, BatchStatus.UNLOGGED),
            "sources": [document.source_to_json(one) for one in detail.sources],
            "settings_changed": {
                key: {"from": redact.setting(key, old), "to": redact.setting(key, new)}
                for key, (old, new) in detail.settings_changed.items()
            },
            "unreadable": [document.unreadable_to_json(one) for one in detail.unreadable],
        }
    )


def _make_lines(detail: BatchDetail, *, compared: bool) -> Iterator[Line]:
    standing = Part(detail.standing.value, text.STANDINGS[detail.standing])
    itself = compared and detail.after == detail.batch
    if itself:
        yield (Part(f"nothing lies between batch {detail.batch} and itself; it is "), standing)
    elif compared:
        yield (
            Part(f"from the end of batch {detail.after} to the end of batch {detail.batch}, "),
            standing,
        )
    else:
        first = "the beginning" if detail.batch == 0 else "an end that is no longer there"
        since = first if detail.after is None else f"the end of batch {detail.after}"
        yield (Part(f"batch {detail.batch}, from {since}, "), standing)
    for one in detail.unreadable:
        yield (Part(f"  {one.path}: {one.reason}", Style.BAD),)
    for source in () if itself else detail.sources:
        yield ()
        yield from text.format_source(source, every=True)
    if detail.settings_changed:
        yield ()
        yield (Part("Settings that changed", Style.HEAD),)
        yield from text.format_settings_changed(detail.settings_changed)
