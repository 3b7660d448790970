"""The command as a file: `python -m holdfast`, and what `spark-submit` is given.

Python puts the folder of a submitted file first on its path. This package's modules would then
hide a job's own `run` or `model`, so the folder is taken off before anything is imported.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path[:] = [
        entry
        for entry in sys.path
        if Path(entry or ".").resolve() != Path(__file__).resolve().parent
    ]
    from holdfast.cli.main import main

    main()
