import { Client } from "hubbub-client";

const KEY = "telemetry";

export type Answer = "yes" | "no" | null;

/** What the person answered. On a server there is nobody to ask. */
export const answer = (): Answer => {
  const found = typeof localStorage === "undefined" ? null : localStorage.getItem(KEY);
  return found === "yes" || found === "no" ? found : null;
};

/** One client for the app. A module makes it, not a component: strict mode renders components twice. */
export const telemetry = new Client("http://127.0.0.1:8701", {
  trust: null, // only for an address on this machine; elsewhere the line that the aggregator prints
  consent: () => answer() === "yes", // asked each time
  maxEpsilon: 6, // the most that this browser spends in a day: a short visit leaves its day to the next one
});

export const setAnswer = async (given: "yes" | "no"): Promise<void> => {
  localStorage.setItem(KEY, given);
  // "No" deletes what was kept, in all tabs. The ledger stays: what was spent is not forgotten.
  await (given === "yes" ? telemetry.enable() : telemetry.disable());
};
