"""Releases, batches and keys in SQLite."""
