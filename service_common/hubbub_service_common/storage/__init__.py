"""Code that the storages of both services share."""
