"""Clocks: whether the time of this machine can be trusted."""
