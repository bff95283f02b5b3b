/** Randomness of the system, which every shipped client uses. Nothing can seed it. */

import { type Take } from "../protocol/draws.ts";

const MOST = 65_536;

export const systemValues: Take = (n) => {
  const bytes = new Uint8Array(n);
  for (let at = 0; at < n; at += MOST) crypto.getRandomValues(bytes.subarray(at, at + MOST));
  return bytes;
};

/** The system's generator has no state that one draw could shift for another. */
export const systemCoins = (): Take => systemValues;
