"""Where the command begins: `holdfast`, `python -m holdfast`, and what `spark-submit` is given.

Almost all of a short command is spent on loading, and Ctrl-C may come then, too. So everything is
loaded inside of `main`, which ends without a word.
"""

import sys


def main() -> None:
    """Run the command, and exit with its code."""
    try:
        from holdfast.cli.main import main as command  # Ctrl-C while it loads

        command()
    except KeyboardInterrupt:
        sys.exit(130)


def _let_jobs_hide_us() -> None:
    """Take this package's own folder off the path.

    Python puts the folder of a submitted file first there, and this package's modules would hide
    a job's own `run` or `model`.
    """
    from pathlib import Path  # slow to load

    own = Path(__file__).resolve().parent
    sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != own]


if __name__ == "__main__":
    try:
        _let_jobs_hide_us()
    except KeyboardInterrupt:
        sys.exit(130)
    main()
