"""For operators: admin listener, metrics, probes and periodic checks."""
