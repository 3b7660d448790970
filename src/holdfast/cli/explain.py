"""`holdfast explain`: what does this code mean?"""

import difflib

import click

from holdfast.cli import options
from holdfast.diagnose.explanations import EXPLANATIONS
from holdfast.errors import OptionInvalid
from holdfast.model.finding import Code
from holdfast.report import explanation


@click.command()
@click.argument("code", metavar="CODE")
@click.option("--debug", is_flag=True, help="Whole stack traces.")
def explain(code: str, *, debug: bool) -> None:  # noqa: ARG001  the entry point reads it
    """Say what a finding means, how it comes about, what Spark does, and what cures it."""
    told = code.strip().upper()
    if told not in Code.__members__:
        near = difflib.get_close_matches(told, list(Code.__members__), n=1, cutoff=0.4)
        raise OptionInvalid(
            f"expected the code of a finding, found `{code}`",
            hint=f"holdfast explain {near[0] if near else Code.PENDING_BATCH}",
        )
    found = Code(told)
    options.write_lines(explanation.lines(found, EXPLANATIONS[found]))
