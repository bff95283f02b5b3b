"""A service as a process: logs, metrics, signals and files."""
