"""The aggregator: sees what, never who. Not written yet: this package only holds its place in the import contracts."""
