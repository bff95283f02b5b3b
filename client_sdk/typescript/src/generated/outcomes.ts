// Written by `python -m scripts.make_typescript` from the Python code. Do not edit.

export type Outcome =
  /** Taken. A kill of the app may lose it while the file is busy, and a power cut until it is randomized. Nothing was sent yet in either case. */
  | "recorded"
  /** The private coin keeps this device out of this metric for this period. */
  | "not_in_share"
  /** The codebook's or the device's own limit on epsilon is reached, or the period is already spent. */
  | "over_budget"
  /** The codebook has shorter periods than this client's `min_period`, so it is not used. */
  | "short_period"
  /** The codebook is not one that this client's `pin` names, so it is not used. */
  | "not_pinned"
  /** There is no consent, or the metric or this client is switched off. */
  | "disabled"
  /** There is no such metric, or it does not take this value. */
  | "invalid"
  /** The bundle or the metric is past its last day, the value waited for longer than its period's grace, or too many values are waiting. */
  | "expired"
  /** No codebook is known yet. The value is kept in memory until one has been fetched. */
  | "waiting"
  /** The state directory cannot be written to, so nothing may be reported. */
  | "no_durable_state"
;
