"""Reports in Redis."""
