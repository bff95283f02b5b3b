"""The aggregator's signed bundle: verified, kept and relayed."""
