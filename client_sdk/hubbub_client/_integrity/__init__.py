"""Integrity of the state file: no spend is ever forgotten."""
