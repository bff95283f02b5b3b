"""Everything that the device, the shuffler and the aggregator must agree on.

Importing this package loads only the standard library. The main modules:
`randomness`, `mechanisms`, `codebook`, `period`, `reduce`, `bundle`, `postprocess`, `errors`.
"""

__version__ = "0.1.0"
