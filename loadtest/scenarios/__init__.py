"""Runs against a real stack, each with the table of what it must show: `python -m loadtest.scenarios NAME`."""
