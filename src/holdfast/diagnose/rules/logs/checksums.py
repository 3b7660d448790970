"""Are there hidden checksums of files that are gone?

On a local disk Hadoop writes a hidden `.N.crc` beside every file `N`. If somebody removes `N` but
not its checksum, Spark fails when it writes `N` again: it can move the new file into place, but not
the new checksum.
"""

from collections.abc import Iterator

from holdfast.model.fact import Unknown
from holdfast.model.finding import Clue, Code, Finding, NotAssessed, RuleInput, Severity


def evaluate(given: RuleInput) -> Iterator[Finding | NotAssessed]:
    """Yield a finding for each leftover checksum of a file that the next batches write."""
    batch = given.restart.batch
    for path in given.evidence.leftover_checksums:
        folder, _, name = path.rpartition("/")
        if folder in ("offsets", "commits") and not isinstance(batch, Unknown):
            if int(name) < batch:
                continue
        elif folder in ("offsets", "commits"):
            continue
        hidden = f"{folder}/.{name}.crc" if folder else f".{name}.crc"
        after = ", after the sink has written the batch" if folder == "commits" else ""
        yield Finding(
            code=Code.CHECKSUM_LEFT,
            severity=Severity.BLOCKS,
            text=f"A restart will fail when Spark writes `{path}`{after}: the old checksum"
            f" `{hidden}` was left behind when `{path}` was removed.",
            clues=(Clue(file=hidden, expected=f"`{path}` beside it", found="no such file"),),
            remedies=(f"remove `{hidden}`",),
        )
