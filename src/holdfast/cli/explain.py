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
    """Say what a finding means, how it comes about, what Spark does, and what cures it.

    For an error it prints the meaning; the hint of the error says what to do. Without CODE it lists
    every code.
    """
    if code is None:
        options.write(_list_codes())
        return
    told = code.strip().upper()
    refusals = {kind.code: kind for kind in errors.list_kinds()}
    if told in Code.__members__:
        found = Code(told)
        options.write_lines(explanation.to_lines(found, EXPLANATIONS[found]))
    elif told in refusals:
        meaning = (refusals[told].__doc__ or "").splitlines()[0]
        options.write(f"{told}\n{meaning}\n\nExit code {refusals[told].exit_code}\n")
    else:
        known = [*Code.__members__, *refusals]
        near = difflib.get_close_matches(told, known, n=1, cutoff=0.4)
        raise errors.OptionInvalid(
            f"expected the code of a finding or of an error, found `{code}`",
            hint=f"holdfast explain {near[0] if near else Code.PENDING_BATCH}",
        )


def _list_codes() -> str:
    """Return every code with one line on its meaning, findings first."""
    findings = {code.value: EXPLANATIONS[code].meaning for code in Code}
    refusals = {kind.code: (kind.__doc__ or "") for kind in errors.list_kinds()}
    width = max(map(len, (*findings, *refusals)))
    parts = []
    for title, codes in (("findings", findings), ("errors", refusals)):
        lines = (f"  {code:{width}}  {text.splitlines()[0]}" for code, text in codes.items())
        parts.append("\n".join((title, *lines)))
    return "\n\n".join(parts) + "\n"
