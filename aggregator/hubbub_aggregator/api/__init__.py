"""Routes, one module per kind of caller: the shuffler, devices (through it), analysts, operators."""
