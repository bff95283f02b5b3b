"""Batch and permute: from full buckets to batches in random order."""
