"""The state file: one SQLite database per device."""
