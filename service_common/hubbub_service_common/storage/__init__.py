"""What the storages of both services share."""
