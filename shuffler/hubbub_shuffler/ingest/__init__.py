"""Ingest: from an upload to durable reports in buckets."""
