"""Advice that several errors and findings give. Following it to the letter works; tests do so."""

NEW_CHECKPOINT = (
    "start over: delete the checkpoint and every table that the query writes, in a database also"
    " the job's rows in `holdfast_ledger`; it then reads everything again"
)
NEW_NAME = (
    "give the query a new checkpoint, and a job of holdfast a new name; it reads the topic from its"
    " beginning, and what the tables hold stays"
)

BEHIND = (
    "restore the table and its ledger, then start again; if the missing rows may stay missing, or"
    " were put back by hand, start once with `--accept SINK_BEHIND`"
)


def pending(batch: int) -> str:
    """Return how to go on with a table that was restored while a batch was pending."""
    return (
        f"delete the rows of batch {batch} from the table, if it has them, and put back those of"
        f" earlier batches that are missing; then start once with `--accept SINK_BEHIND`, which"
        f" writes batch {batch} again"
    )


def start_over(job: str, location: str) -> str:
    """Return how a job begins from nothing; the ledger of a table in a database is beside it."""
    forget = f"DELETE FROM holdfast_ledger WHERE job = '{job}'"  # noqa: S608  a job has a plain name
    return (
        f"to begin from nothing, delete `{location}` and every table that the job writes, in a"
        f" database run `{forget}` as well, then start again"
    )


def take_sinks_back(last: int) -> str:
    """Return how every sink forgets the batches after one; -1 stands for all batches."""
    if last < 0:
        return (
            "delete every table that the query writes, in a database also the job's rows in"
            " `holdfast_ledger`"
        )
    return (
        f"put back every table that the query writes as it was after batch {last}, from a copy, in"
        " a database together with the job's rows in `holdfast_ledger`"
    )
