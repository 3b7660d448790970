"""`holdfast explain`: what does this code mean?"""

import difflib

import click

from holdfast import errors
from holdfast.cli import options
from holdfast.diagnose.explanations import EXPLANATIONS
from holdfast.model.finding import Code
from holdfast.report import explanation


@click.command()
@click.argument("code", metavar="[CODE]", required=False)
@options.debug
def explain(code: str | None, *, debug: bool) -> None:  # noqa: ARG001  the entry point reads it
    """Explain the code of a finding or an error.

    For a finding, prints its meaning, its causes, what Spark does, and what to do. For an error,
    prints its meaning; the hint of the error says what to do. Without CODE, lists every code.
    """
    if code is None:
        options.write(_list_codes())
        return
    wanted = code.strip().upper()
    kinds = {kind.code: kind for kind in errors.list_kinds()}
    if wanted in Code.__members__:
        finding = Code(wanted)
        options.write_lines(explanation.to_lines(finding, EXPLANATIONS[finding]))
    elif wanted in kinds:
        meaning = (kinds[wanted].__doc__ or "").splitlines()[0]
        options.write(f"{wanted}\n{meaning}\n\nExit code {kinds[wanted].exit_code}\n")
    else:
        known = [*Code.__members__, *kinds]
        near = difflib.get_close_matches(wanted, known, n=1, cutoff=0.4)
        raise errors.OptionInvalid(
            f"`{code}` is not the code of a finding or of an error",
            hint=f"holdfast explain {near[0] if near else Code.PENDING_BATCH}",
        )


def _list_codes() -> str:
    """Return every code with the first line of its meaning, findings before errors."""
    findings = {code.value: EXPLANATIONS[code].meaning for code in Code}
    kinds = {kind.code: (kind.__doc__ or "") for kind in errors.list_kinds()}
    width = max(map(len, (*findings, *kinds)))
    parts = []
    for title, codes in (("findings", findings), ("errors", kinds)):
        lines = (f"  {code:{width}}  {text.splitlines()[0]}" for code, text in codes.items())
        parts.append("\n".join((title, *lines)))
    return "\n\n".join(parts) + "\n"
