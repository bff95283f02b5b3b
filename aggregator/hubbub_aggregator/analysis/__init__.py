"""Estimate: answers to questions, as pure functions of releases."""
