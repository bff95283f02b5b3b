"""Redis backend: reports on one server or on a cluster."""
