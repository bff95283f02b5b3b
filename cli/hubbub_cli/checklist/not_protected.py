"""What is not protected, one statement each: whoever runs a deployment has to have read them."""

from __future__ import annotations

__all__ = ["LIMITS"]

LIMITS: dict[str, str] = {
    "participation": "Whether, when, how often and for which metrics a device reports is not protected: the shuffler "
    "sees it, whoever watches the network sees some of it, and the number of reports is public.",
    "collusion": "If shuffler and aggregator work together, or one party has both machines, only each device's local "
    "epsilon is left.",
    "honest": "That the assumed share of valid reports is honest is enforced by nothing. Devices that lie also move "
    "the estimates: every estimate says by how much one fake in a thousand reports could.",
    "people": "Not a person but a device is the unit: who has several devices is protected less.",
    "time": "The guarantees of periods add up. Nothing is memoized, so a value that never changes is reported anew, "
    "and costs anew, in every period.",
    "facts": "What is true of the crowd is learned, and is meant to be. Someone known to belong to it is judged by it, "
    "whether or not their device reports.",
    "device": "Until it is randomized, the reduced value of a period is on the device's disk, in a file that its "
    "owner can read. So can whoever controls the device.",
    "forgetting": "The device keeps the account of what it spent. Who deletes its state or installs the app anew "
    "starts at zero, and other apps and other telemetry are not in the account.",
    "delta": "With a chance of up to delta the shuffle guarantee may fail outright for a device; the local one does "
    "not.",
}
