"""Reference pages generated from code, which docs/conf.py inserts in place of `<!-- generated: NAME -->`."""
