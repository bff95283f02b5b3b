"""Accuracy and cost of the mechanisms beside those of other libraries, on the same seeded values in one run.

`make bench-mechanisms` makes the others' environment, runs everything and renews
docs/explanation/mechanism-comparison.md.
"""
