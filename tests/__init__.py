"""Tests of holdfast, by kind."""
