"""One decoder under atheris: `python -m tests.fuzz.guided NAME [libFuzzer options]`."""

import sys

import atheris  # type: ignore[import-not-found,import-untyped,unused-ignore]

with atheris.instrument_imports(include=["holdfast"]):
    import holdfast.decode
    from tests.fuzz.promise import check

NAME = sys.argv.pop(1)


def main() -> None:
    """Let atheris run; it ends the process."""
    assert holdfast.decode.__doc__
    atheris.Setup(sys.argv, lambda data: check(NAME, data))
    atheris.Fuzz()


if __name__ == "__main__":
    main()
