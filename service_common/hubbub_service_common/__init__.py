"""What the shuffler and the aggregator share, and no device loads."""
