"""Advice that several errors and findings give. Tests follow it to the letter, and it works."""

NEW_CHECKPOINT = (
    "start over: delete the checkpoint and every table that the query writes (in a database, also"
    " the job's rows in `holdfast_ledger`); the query then reads everything again"
)
NEW_NAME = (
    "give the query a new checkpoint, and a holdfast job also a new name; the query then reads the"
    " topic from its beginning, and the rows in the tables stay"
)

BEHIND = (
    "restore the table and its ledger, then start again; if the missing rows may stay missing, or"
    " were restored by hand, start once with `--accept SINK_BEHIND`"
)


def start_over(job: str, location: str) -> str:
    """Return how to start a job from scratch; in a database, its ledger is a table of its own."""
    delete = f"DELETE FROM holdfast_ledger WHERE job = '{job}'"  # noqa: S608  a job has a plain name
    return (
        f"to start from scratch, delete `{location}` and every table that the job writes (in a"
        f" database, also run `{delete}`), then start again"
    )


def take_sinks_back(last: int) -> str:
    """Return how to remove the batches after `last` from every sink; -1 removes all batches."""
    if last < 0:
        return (
            "delete every table that the query writes (in a database, also the job's rows in"
            " `holdfast_ledger`)"
        )
    return (
        f"put back a copy of every table that the query writes, as it was after batch {last} (in a"
        " database, together with the job's rows in `holdfast_ledger`)"
    )
