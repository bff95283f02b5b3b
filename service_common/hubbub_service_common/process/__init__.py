"""A service as a process: logs, metrics, signals, files."""
