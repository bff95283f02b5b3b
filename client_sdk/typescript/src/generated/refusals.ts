// Written by `python -m scripts.make_typescript` from the Python code. Do not edit.

export const PROBLEM = "urn:hubbub:problem:";
export type Action = "retry" | "split" | "fetch the bundle" | "drop";
export const NAMES_BY_ACTION: Record<Action, string> = {
  "retry": "unsupported-media-type period-in-future overloaded storage-full rate-limited no-bundle clock-in-doubt unauthorized not-found method-not-allowed nothing-released not-ready internal-error",
  "split": "malformed-upload too-large",
  "fetch the bundle": "unknown-key revoked-key",
  "drop": "malformed-report wrong-length unknown-metric metric-disabled period-closed malformed-batch batch-too-small batch-conflict batch-too-late invalid-query",
};
