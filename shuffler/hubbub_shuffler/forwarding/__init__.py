"""Forwarding: batches on their way to the aggregator."""
