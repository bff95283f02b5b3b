"""Reports in SQLite."""
