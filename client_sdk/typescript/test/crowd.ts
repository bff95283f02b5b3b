/** A crowd of devices in Node that report to a real shuffler: {address, values, at, until} on standard input, where values
 * has an object for each device. Their clocks stand at `at` while they record, and then at `until`, when the period has
 * ended: so a busy machine can't miss it. Prints what became of it. */

import { text } from "node:stream/consumers";

import { Client } from "../src/client.ts";
import { systemCoins, systemValues } from "../src/device/randomness.ts";
import { fetching } from "../src/device/transport.ts";
import { MemoryStorage } from "../src/storages/memory.ts";
import { type Any } from "./support.ts";

const given = JSON.parse(await text(process.stdin)) as { address: string; values: Record<string, Any>[]; at: number; until: number };

let now = given.at;

const outcomes: Record<string, number> = {};
const clients: Client[] = [];
for (const values of given.values) {
  const client = new Client(
    given.address,
    { trust: null, consent: true, background: false, maxEpsilon: null, minPeriod: null },
    {
      storage: new MemoryStorage(),
      transport: fetching(given.address, { "User-Agent": "hubbub" }),
      clock: () => now,
      running: () => performance.now() / 1000,
      sleep: (seconds) => new Promise((resolve) => setTimeout(resolve, seconds * 1000)),
      values: systemValues,
      coins: systemCoins,
      freshIsClosed: false,
      refusal: () => undefined,
    },
  );
  await client.flush({ timeout: 5 });
  for (const [name, value] of Object.entries(values)) {
    const outcome = client.record(name, value);
    outcomes[outcome] = (outcomes[outcome] ?? 0) + 1;
  }
  clients.push(client);
}
now = given.until;
let done = 0;
for (const client of clients) if (await client.flush({ timeout: 20, now: true })) done++;
const stats: Record<string, number> = {};
for (const client of clients) for (const [name, count] of Object.entries(client.stats())) stats[name] = (stats[name] ?? 0) + count;
console.log(JSON.stringify({ outcomes, done, stats }));
