"""The version of holdfast, said once."""

VERSION = "0.1.0"
