/** Prints the time of `record` and of sealing in Node, with a state file. */

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { Client } from "../src/client.ts";
import { systemCoins, systemValues } from "../src/device/randomness.ts";
import { SqliteStorage } from "../src/storages/sqlite.ts";
import { FakeClock, MemoryShuffler } from "../src/testing.ts";
import { vectors } from "./support.ts";
import { timed } from "./timing.ts";

const clock = new FakeClock();
const shuffler = await MemoryShuffler.serving(JSON.parse(vectors("codebook.json")[0].compiled), clock);
const folder = mkdtempSync(join(tmpdir(), "hubbub-"));
const client = new Client(
  "https://telemetry.example.com",
  { trust: shuffler.trust, consent: true, background: false },
  {
    storage: new SqliteStorage(folder),
    transport: shuffler.transport,
    clock: () => clock.now,
    running: () => performance.now() / 1000,
    sleep: () => Promise.resolve(),
    values: systemValues,
    coins: systemCoins,
    refusal: () => undefined,
  },
);
await client.flush({ timeout: 0 });
console.log(JSON.stringify(await timed(client, "temperature")));
await client.close();
rmSync(folder, { recursive: true });
