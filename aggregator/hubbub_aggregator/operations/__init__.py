"""For operators: admin listener, metrics, status and backup."""
