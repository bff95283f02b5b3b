"""Clocks: whether this machine's time can be trusted."""
