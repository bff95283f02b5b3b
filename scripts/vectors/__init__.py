"""Generators of the test vectors that every implementation must agree on."""
