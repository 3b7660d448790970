"""Stage 3: are there hidden checksums of files that are gone?

On a local disk Hadoop hides `.N.crc` beside every file. Somebody who removes `N` and not its
checksum makes Spark fail when it writes `N` anew: moving the file succeeds, moving its checksum
does not.
"""

from collections.abc import Iterator

from holdfast.model.fact import Unknown
from holdfast.model.finding import Clue, Code, Finding, NotAssessed, RuleInput, Severity


def evaluate(seen: RuleInput) -> Iterator[Finding | NotAssessed]:
    """Checksums in the place of what the next batches write."""
    batch = seen.restart.batch
    for path in seen.evidence.leftover_checksums:
        folder, _, name = path.rpartition("/")
        if folder in ("offsets", "commits") and not isinstance(batch, Unknown):
            if int(name) < batch:
                continue
        elif folder in ("offsets", "commits"):
            continue
        hidden = f"{folder}/.{name}.crc" if folder else f".{name}.crc"
        after = " after the sink has written" if folder == "commits" else ""
        yield Finding(
            code=Code.CHECKSUM_LEFT,
            severity=Severity.BLOCKS,
            text=f"`{hidden}` was left when `{path}` was removed: Spark fails{after} when it"
            f" writes `{path}` anew.",
            clues=(Clue(file=hidden, expected=f"`{path}` beside it", found="no such file"),),
            remedies=(f"remove `{hidden}`",),
        )
