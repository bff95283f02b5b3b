"""Seal and send: the worker, its cycle, the outbox and the upload."""
