"""The whole world in one process: devices, shufflers, aggregators and storages under one seed. See tests/world/README.md."""
