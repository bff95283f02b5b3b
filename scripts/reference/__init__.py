"""The reference that is generated from code: what docs/conf.py puts in the place of `<!-- generated: NAME -->`."""
