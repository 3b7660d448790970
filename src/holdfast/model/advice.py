"""Advice that several errors and findings give.

Each text works when it is followed to the letter: `tests/shape/test_hints.py` names the tests.
"""

NEW_CHECKPOINT = (
    "start over: delete the checkpoint and every table that the query writes (in a database, also"
    " the job's rows in `holdfast_ledger`); the query then reads everything again"
)
NEW_NAME = (
    "give the query a new checkpoint (for a holdfast job, a new name); it then reads the topic from"
    " the beginning, and the tables keep their rows"
)
BEHIND = (
    "restore the table and its ledger, then start again; if the missing rows are not needed, or"
    " were put back by hand, start once with `--accept SINK_BEHIND`"
)


def pending(batch: int) -> str:
    """Return how to go on with a table that was restored while a batch was pending."""
    return (
        f"delete the rows of batch {batch} from a database table, to which the start writes that"
        " batch again, but put them back into a Delta table, for which the start skips it; put back"
        " the missing rows of earlier batches; then start once with `--accept SINK_BEHIND`"
    )


def start_over(job: str, location: str) -> str:
    """Return how a job starts from scratch; a table's ledger is in the same database."""
    forget = f"DELETE FROM holdfast_ledger WHERE job = '{job}'"  # noqa: S608  a job has a plain name
    return (
        f"to start from scratch, delete `{location}` and every table that the job writes (in a"
        f" database, also run `{forget}`), then start again"
    )


def take_sinks_back(last: int) -> str:
    """Return how to rewind every sink to the end of batch `last`; -1 means before all batches."""
    if last < 0:
        return (
            "delete every table that the query writes (in a database, also the job's rows in"
            " `holdfast_ledger`)"
        )
    return (
        f"restore every table that the query writes to its state after batch {last} (in a database,"
        " together with the job's rows in `holdfast_ledger`)"
    )
