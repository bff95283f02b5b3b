"""Consent: whether anything may be kept or sent."""
