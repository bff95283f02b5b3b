"""The life of the host process: forks, imports and exit."""
