"""What the device, the shuffler and the aggregator must agree on.

Importing this package loads the standard library and nothing else; see the modules:
`randomness`, `mechanisms`, `codebook`, `period`, `reduce`, `bundle`, `postprocess`, `errors`.
"""

__version__ = "0.1.0"
