"""Batch and permute: from closed buckets to batches in random order."""
