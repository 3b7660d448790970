"""Fixtures that several kinds of test share."""
