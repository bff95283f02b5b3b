/** A process of an app with a state file that others share: `node test/process.ts` with {address, trust, folder, now, calm}
 * on the command line. It records and sends at that time of the wall clock until it is killed; or if it is calm, it sends
 * what is due and prints its ledger. */

import { Client } from "../src/client.ts";
import { systemCoins, systemValues } from "../src/device/randomness.ts";
import { fetching } from "../src/device/transport.ts";
import { SqliteStorage } from "../src/storages/sqlite.ts";

const { address, trust, folder, now, calm } = JSON.parse(process.argv[2]!) as {
  readonly [name in "address" | "trust" | "folder"]: string;
} & { readonly now: number; readonly calm: boolean };

const client = new Client(
  address,
  { trust, consent: true, background: false, maxEpsilon: null },
  {
    storage: new SqliteStorage(folder),
    transport: fetching(address),
    clock: () => now,
    running: () => performance.now() / 1000,
    sleep: (seconds) => new Promise((resolve) => setTimeout(resolve, seconds * 1000)),
    values: systemValues,
    coins: systemCoins,
    refusal: () => undefined,
  },
);
await client.flush({ timeout: 0, now: true });
console.log("ready"); // it may be killed from now on
for (;;) {
  if (calm) {
    const done = await client.flush({ timeout: 30, now: true });
    console.log(JSON.stringify({ done, ledger: await client.ledger() }));
    await client.close();
    break;
  }
  for (const [metric, value] of [["theme", "dark"], ["clicks", 1]] as const) client.record(metric, value);
  await client.flush({ timeout: 0, now: true });
}
