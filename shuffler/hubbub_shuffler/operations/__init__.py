"""For operators: admin listener, metrics, storage probes and periodic checks."""
