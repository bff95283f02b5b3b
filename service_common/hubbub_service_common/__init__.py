"""Code that the shuffler and the aggregator share, and that no device loads."""
