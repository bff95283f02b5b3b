"""Open and accumulate: from a spooled batch to a release."""
