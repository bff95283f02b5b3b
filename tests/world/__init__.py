"""Simulation of the whole system: devices, services and storages in one process, under one seed."""
