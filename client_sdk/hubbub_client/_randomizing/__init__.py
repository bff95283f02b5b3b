"""Randomize, once per metric and period."""
