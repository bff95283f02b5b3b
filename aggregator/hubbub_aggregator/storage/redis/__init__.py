"""Releases, batches and keys in Redis."""
