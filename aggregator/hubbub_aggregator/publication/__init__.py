"""What devices are told: codebooks, sealing keys and the signed bundle."""
