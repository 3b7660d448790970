"""The folders in `tests/checkpoints` -> the table in its README."""

from pathlib import Path

_BEGIN = "<!-- written by make golden -->"


def write(checkpoints: Path) -> None:
    """Replace everything after the mark by the table of recorded scenarios."""
    path = checkpoints / "README.md"
    if not path.exists():
        return
    head = path.read_text("utf-8").split(_BEGIN)[0]
    path.write_text(f"{head}{_BEGIN}\n{table(checkpoints)}", "utf-8")


def table(checkpoints: Path) -> str:
    """Return a table of file counts and kilobytes: a row per scenario, a column per version."""
    versions = sorted(folder.name for folder in checkpoints.iterdir() if folder.is_dir())
    scenarios = sorted({folder.parent.name for folder in checkpoints.glob("*/*/checkpoint")})
    head = f"| scenario | {' | '.join(versions)} |\n|---|{'---|' * len(versions)}\n"
    rows = [
        f"| {scenario} | "
        + " | ".join(_size(checkpoints / version / scenario) for version in versions)
        + " |\n"
        for scenario in scenarios
    ]
    sums = " | ".join(_size(checkpoints / version) for version in versions)
    return f"\n{head}{''.join(rows)}| all | {sums} |\n"


def _size(folder: Path) -> str:
    if not folder.is_dir():
        return "none"
    sizes = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
    return f"{len(sizes)} files, {sum(sizes) / 1000:.0f} kB"
