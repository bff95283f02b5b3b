"""Accuracy and cost of the mechanisms compared with other libraries, on the same seeded values in one run.

`make bench-mechanisms` makes the environment of the other libraries, runs everything and renews
docs/explanation/mechanism-comparison.md.
"""
