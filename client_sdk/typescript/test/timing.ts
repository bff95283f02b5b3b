/** Time of `record` and of sealing a report, in a page or in Node. */

import { type Client } from "../src/client.ts";
import { utf8 } from "../src/protocol/bytes.ts";
import { seal } from "../src/protocol/seal.ts";

const BATCHES = 20;
const EACH = 50;

/** Microseconds. */
export interface Timing {
  /** The median, over batches of values, of the time of one; and the longest time of a single one. */
  readonly record: number;
  readonly longestRecord: number;
  readonly seal: number;
}

const median = (values: readonly number[]): number => [...values].sort((a, b) => a - b)[values.length >> 1]!;

/** Values are recorded as a page would: some, and then other work. */
export const timed = async (client: Client, metric: string): Promise<Timing> => {
  const records: number[] = [];
  const seals: number[] = [];
  let longest = 0;
  const { publicKey } = (await crypto.subtle.generateKey("X25519", true, ["deriveBits"])) as CryptoKeyPair;
  const key = new Uint8Array(await crypto.subtle.exportKey("raw", publicKey));
  for (let batch = 0; batch < BATCHES; batch++) {
    const start = performance.now();
    for (let i = 0; i < EACH; i++) {
      const before = performance.now();
      const outcome = client.record(metric, i % 10);
      longest = Math.max(longest, performance.now() - before);
      if (outcome !== "recorded") throw new Error(outcome);
    }
    records.push((performance.now() - start) / EACH);
    await new Promise((resolve) => setTimeout(resolve, 50));
    const began = performance.now();
    for (let i = 0; i < EACH; i++) await seal(key, utf8("info"), new Uint8Array(21));
    seals.push((performance.now() - began) / EACH);
  }
  return { record: 1000 * median(records), longestRecord: 1000 * longest, seal: 1000 * median(seals) };
};
