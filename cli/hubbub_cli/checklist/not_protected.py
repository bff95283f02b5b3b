"""Limits of the protection, one statement each. The operator of a deployment must have read them."""

from __future__ import annotations

__all__ = ["LIMITS"]

LIMITS: dict[str, str] = {
    "participation": "Whether, when, how often and for which metrics a device reports is not protected: the shuffler "
    "sees it, anyone who watches the network sees some of it, and the number of reports is public.",
    "collusion": "If shuffler and aggregator work together, or one party has both machines, only each device's local "
    "epsilon is left.",
    "honest": "Nothing enforces that the assumed share of valid reports is honest. Devices that lie also move the "
    "estimates: every estimate says by how much one fake in a thousand reports could.",
    "people": "The unit is a device, not a person: a person with several devices is protected less.",
    "time": "The guarantees of periods add up. Nothing is memoized, so a value that never changes is reported again, "
    "at the same cost, in every period.",
    "facts": "What is true of the crowd is learned, as intended. Someone known to belong to it is judged by it, "
    "whether or not their device reports.",
    "device": "Until it is randomized, the reduced value of a period is on the device's disk, in a file that its "
    "owner can read. Anyone who controls the device can read it too.",
    "forgetting": "The device keeps the account of what it spent. If its state is deleted or the app reinstalled, the "
    "account starts at zero. Other apps and other telemetry are not in the account.",
    "delta": "With a chance of up to delta the shuffle guarantee may fail outright for a device; the local one does "
    "not.",
}
