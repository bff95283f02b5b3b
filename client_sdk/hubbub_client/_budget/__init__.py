"""The privacy budget: what was spent, and the limits of this device."""
