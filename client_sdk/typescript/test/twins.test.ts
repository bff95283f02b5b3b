/** Taking part tells nothing: two devices with the same coins, of which one records and the other does not, send the same
 * reports of metrics with `missing`, at the same times and in the same order. Only what is sealed differs. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { Client } from "../src/client.ts";
import { type Transport } from "../src/device/device.ts";
import { systemValues } from "../src/device/randomness.ts";
import { MemoryStorage } from "../src/storages/memory.ts";
import { FakeClock, MemoryShuffler } from "../src/testing.ts";
import { type Any, streamOf, vectors } from "./support.ts";

const HOUR = 3600;
const DAYS = 12;

/** A codebook with both lanes. */
const codebook = vectors("codebook.json")
  .map((given: Any) => JSON.parse(given.compiled))
  .find((one: Any) => one.collection.period === 86_400 && new Set(one.metrics.map((m: Any) => m.missing === null)).size === 2);

const valueOf = (metric: Any): Any => (metric.type === "boolean" ? true : metric.type === "category" ? metric.values[0] : 7);

/** What a shuffler sees of a device, but for the content of reports and for the lane of the other metrics. */
const seen = async (records: (client: Client, hour: number) => void, offline: (hour: number) => boolean): Promise<string[]> => {
  const clock = new FakeClock();
  const shuffler = await MemoryShuffler.serving(codebook, clock);
  const notes: string[] = [];
  const steady = new Set(codebook.metrics.filter((metric: Any) => metric.missing !== null).map((metric: Any) => metric.name));
  const transport: Transport = async (method, path, headers, body) => {
    const before = shuffler.received().length;
    const answer = await shuffler.transport(method, path, headers, body);
    const sent = shuffler.received().slice(before);
    if (method === "GET") notes.push(`${clock.now} GET ${answer?.status}`);
    else if (sent.length && sent.every(({ metric }) => steady.has(metric)))
      notes.push([clock.now, body!.length, ...sent.map(({ metric, start, nonce }) => `${metric} ${start} ${nonce}`)].join(" "));
    else assert.ok(sent.every(({ metric }) => !steady.has(metric)), "both lanes share a request");
    return answer;
  };
  const client = new Client(
    "https://telemetry.example.com",
    { trust: shuffler.trust, consent: true, background: false, maxEpsilon: null },
    {
      storage: new MemoryStorage(),
      transport,
      clock: () => clock.now,
      running: () => clock.passed,
      sleep: async (seconds) => clock.advance(seconds),
      values: systemValues,
      coins: (purpose, subject, number) => streamOf(`${purpose} ${subject} ${number}`),
      freshIsClosed: false,
      refusal: () => undefined,
    },
  );
  for (let hour = 0; hour < 24 * DAYS; hour += 3) {
    records(client, hour);
    shuffler.offline = offline(hour);
    await client.flush({ timeout: 0 });
    clock.advance(3 * HOUR);
  }
  await client.close();
  assert.ok(notes.length > DAYS);
  return notes;
};

const all = (client: Client): void => {
  for (const metric of codebook.metrics) client.record(metric.name, valueOf(metric));
};

test("two devices that differ in what they record send alike", async () => {
  const nothing = await seen(() => undefined, () => false);
  assert.deepEqual(await seen(all, () => false), nothing);
  assert.deepEqual(await seen((client, hour) => hour % 5 === 0 && all(client), () => false), nothing);
});

test("two devices send alike also when the network is there only at times", async () => {
  const offline = (hour: number): boolean => hour % 48 < 30;
  assert.deepEqual(await seen(all, offline), await seen(() => undefined, offline));
});
