/** The client as an app uses it: in memory, by the test kit, and with a state file in Node. */

import assert from "node:assert/strict";
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { Client as BrowserClient } from "../src/browser.ts";
import { Client } from "../src/client.ts";
import { systemCoins, systemValues } from "../src/device/randomness.ts";
import { type Storage } from "../src/device/storage.ts";
import { Client as NodeClient } from "../src/node.ts";
import { MemoryStorage } from "../src/storages/memory.ts";
import { SqliteStorage } from "../src/storages/sqlite.ts";
import { Device, FakeClock, MemoryShuffler } from "../src/testing.ts";
import { type Any, vectors } from "./support.ts";

const codebooks = vectors("codebook.json");
/** A day's codebook with a metric that is due at once. */
const codebook = JSON.parse(codebooks[0].compiled);

const folder = (): string => mkdtempSync(join(tmpdir(), "hubbub-"));

const [first] = codebook.metrics.filter((metric: Any) => metric.reduce === "first" && metric.missing === null);
const valueOf = (metric: Any): Any => (metric.type === "boolean" ? true : metric.type === "category" ? metric.values[0] : 1);

interface World {
  readonly clock: FakeClock;
  readonly shuffler: MemoryShuffler;
}

const world = async (): Promise<World> => {
  const clock = new FakeClock();
  return { clock, shuffler: await MemoryShuffler.serving(codebook, clock) };
};

const clientOf = ({ clock, shuffler }: World, storage: Storage, options: Any = {}, parts: Any = {}): Client =>
  new Client(
    "https://telemetry.example.com",
    { trust: shuffler.trust, consent: true, background: false, ...options },
    {
      storage,
      transport: shuffler.transport,
      clock: () => clock.now,
      running: () => clock.passed,
      sleep: async (seconds) => clock.advance(seconds),
      values: systemValues,
      coins: systemCoins,
      freshIsClosed: false,
      refusal: () => undefined,
      ...parts,
    },
  );

test("the test kit: a value is reported once in a period", async () => {
  const device = await Device.of(codebook);
  const value = valueOf(first);
  assert.equal(device.client.record(first.name, value), "recorded");
  assert.equal(device.client.record(first.name, value), "recorded");
  const { length } = await device.reportsSent(first.name);
  assert.ok(length <= 1);
  await device.restart();
  device.client.record(first.name, value);
  assert.equal((await device.reportsSent(first.name)).length, length);
  await device.nextPeriod();
  assert.throws(() => device.client.record("no_such_metric", 1), /no metric is named no_such_metric; the codebook has \w/);
  // Also in a build for browsers, which has no reasons of refusals: what it takes, and never the value.
  const wrong = (error: Error): boolean => / does not take this: it takes \w/.test(error.message) && !error.message.includes("x9x");
  assert.throws(() => device.client.record(first.name, first.type === "boolean" ? "x9x" : ["x9x"]), wrong);
  device.consent = false;
  assert.equal(device.client.record(first.name, value), "disabled");
  await device.close();
});

test("importing keeps and sends nothing, and on a server a client says that it can keep nothing", async () => {
  const client = new BrowserClient("https://telemetry.example.com", { trust: "ed25519:" + "A".repeat(43), consent: true });
  assert.equal(client.record("theme", "dark"), "no_durable_state");
  assert.equal(await client.flush({ timeout: 0 }), false);
  await client.close();
});

test("without consent nothing is kept, sent or asked for", async () => {
  const here = await world();
  const stateDir = folder();
  const client = clientOf(here, new SqliteStorage(join(stateDir, "state")), { consent: false });
  assert.equal(client.record(first.name, valueOf(first)), "disabled");
  assert.equal(await client.flush({ timeout: 0 }), false);
  assert.deepEqual([readdirSync(stateDir), here.shuffler.requests], [[], []]);
  await client.close();
  rmSync(stateDir, { recursive: true });
});

test("fresh storage closes the period and the day that had begun, and says so", async () => {
  const here = await world();
  const client = clientOf(here, new MemoryStorage(), {}, { freshIsClosed: true });
  await client.flush({ timeout: 0 });
  assert.equal(client.record(first.name, valueOf(first)), "over_budget");
  assert.equal((await client.ledger()).closedBefore, here.clock.now);
  assert.equal((await client.preview()).closedBefore, here.clock.now);
  here.clock.advance(86_400);
  await client.flush({ timeout: 0 });
  assert.equal(client.record(first.name, valueOf(first)), "recorded");
  await client.flush({ timeout: 0, now: true });
  assert.equal(here.shuffler.received(first.name).length, 1);
});

test("a limit of epsilon and a switch hold in Node's state file", async () => {
  const here = await world();
  const stateDir = folder();
  const client = clientOf(here, new SqliteStorage(stateDir));
  await client.flush({ timeout: 0 });
  assert.equal(client.record(first.name, valueOf(first)), "recorded");
  const preview = await client.preview();
  assert.deepEqual(preview.pending.map(({ metric, recorded }) => [metric, recorded]), [[first.name, 1]]);
  assert.equal(await client.disable(), true);
  assert.equal(client.record(first.name, valueOf(first)), "disabled");
  assert.equal((await client.preview()).pending.length, 0);
  await client.enable();
  assert.equal(client.record(first.name, valueOf(first)), "recorded");
  await client.close();
  const again = clientOf(here, new SqliteStorage(stateDir));
  await again.flush({ timeout: 0, now: true });
  assert.equal(here.shuffler.received(first.name).length, 1);
  assert.ok((await again.ledger()).metrics.some(({ name, reports }) => name === first.name && reports === 1));
  await again.close();
  rmSync(stateDir, { recursive: true });
});

test("a state file that is damaged or deleted closes what had begun", async () => {
  for (const harm of ["damaged", "deleted"]) {
    const here = await world();
    const stateDir = folder();
    const path = join(stateDir, "hubbub-client.sqlite3");
    const client = clientOf(here, new SqliteStorage(stateDir));
    await client.flush({ timeout: 0 });
    if (harm === "deleted") for (const end of ["", "-wal", "-shm"]) rmSync(path + end, { force: true });
    else {
      await client.close();
      writeFileSync(path, "no database".repeat(1000));
    }
    const after = harm === "deleted" ? client : clientOf(here, new SqliteStorage(stateDir));
    await after.flush({ timeout: 0 });
    assert.equal((await after.ledger()).complete, false, harm);
    assert.equal(after.record(first.name, valueOf(first)), "over_budget", harm);
    await after.close();
    rmSync(stateDir, { recursive: true });
  }
});

test("the client of Node heeds DO_NOT_TRACK", async () => {
  process.env.DO_NOT_TRACK = "1";
  const stateDir = folder();
  const client = new NodeClient("https://telemetry.example.com", { trust: "ed25519:" + "A".repeat(43), consent: true, background: false, stateDir: join(stateDir, "none") });
  assert.equal(client.record("theme", "dark"), "disabled");
  await client.close();
  delete process.env.DO_NOT_TRACK;
  assert.deepEqual(readdirSync(stateDir), []);
  rmSync(stateDir, { recursive: true });
});
