"""Entry point of `holdfast` and `python -m holdfast`, and the file to pass to `spark-submit`.

A short command spends most of its time on imports, and Ctrl-C may arrive during them. So `main`
does all imports, and exits quietly on Ctrl-C.
"""

import sys


def main() -> None:
    """Run the command, and exit with its exit code."""
    try:
        from holdfast.cli.main import main as command  # inside the try: Ctrl-C may arrive here

        command()
    except KeyboardInterrupt:
        sys.exit(130)


def _remove_own_folder() -> None:
    """Remove this package's own folder from `sys.path`.

    Python puts the folder of a submitted file first on the path. This package's modules would then
    hide a job's own `run` or `model`.
    """
    from pathlib import Path  # slow to load

    own = Path(__file__).resolve().parent
    sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != own]


if __name__ == "__main__":
    try:
        _remove_own_folder()
    except KeyboardInterrupt:
        sys.exit(130)
    main()
