// Written by `python -m scripts.make_typescript` from the Python code. Do not edit.

export const NOTICES: Record<string, string> = {
  "codebook:unreadable": "nothing is collected by a codebook that this SDK cannot read: update the SDK",
  "lost:over-budget": "a recorded value is not reported, because a limit of this device is reached: `client.ledger()` shows what was spent; see maxEpsilon and lifetimeEpsilon, and device_epsilon in the codebook",
  "lost:codebook-refused": "a recorded value is not reported, because this device does not use the codebook of its period",
  "lost:metric-disabled": "a recorded value is not reported, because its metric is switched off",
  "lost:period-closed": "a recorded value is not reported, because its period and grace are over: run the app more often, take a longer grace, and check this machine's clock",
  "lost:unknown-metric": "a recorded value is not reported, because the codebook of its period has no such metric",
  "lost:invalid": "a recorded value is not reported, because its metric was edited meanwhile and does not take it",
  "lost:no-room": "a value was not kept, because too many already wait for a first codebook: look at the other notices, or ship the codebook with the app (codebook)",
  "late:expired": "a value waited for a codebook until its period was over: ship the codebook with the app (codebook), or call flush() before the first record",
  "dropped:period-closed": "reports were dropped, because their period and grace are over: run the app more often, take a longer grace, and check this machine's clock",
  "dropped:unknown-metric": "reports were dropped, because the codebook in force has no such metric any more",
  "dropped:metric-disabled": "reports were dropped, because their metric is switched off",
  "dropped:revoked-key": "reports were dropped, because the key of their period was revoked",
  "dropped:outbox-full": "reports were dropped, because too many wait to be sent",
  "dropped:wrong-length": "the shuffler refuses reports as too short or too long: this SDK and the server differ",
  "dropped:malformed-report": "the shuffler cannot read the reports: update the older of SDK and server",
  "retried:network": "reports cannot be delivered, as the shuffler cannot be reached; they are kept and sent again",
  "retried:period-in-future": "the shuffler says that a report's period has not begun: check this machine's clock; reports are not lost, they are kept and sent again",
  "retried:clock-in-doubt": "the server doubts its own clock, and takes no reports for now; they are kept and sent again",
  "retried:unknown-key": "the shuffler does not know the key of a report; they are kept and sent again",
  "retried:rate-limited": "the shuffler takes no more reports from this address for now; they are kept and sent again",
  "retried:overloaded": "the shuffler is busy; they are kept and sent again",
  "retried:no-bundle": "the shuffler has no codebook from the aggregator yet; they are kept and sent again",
  "retried:storage-full": "the shuffler has no room for more reports; they are kept and sent again"
};
export const DECISIONS: Record<string, string> = {
  "charged": "charged, not randomized yet",
  "out of share": "left out by the metric's share",
  "spent": "reported",
  "refused": "not reported, as a limit was reached",
  "closed": "closed, not reported"
};
