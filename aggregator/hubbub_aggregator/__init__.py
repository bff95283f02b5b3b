"""The aggregator: open, accumulate, estimate, publish. It sees what was reported, never who reported it."""
