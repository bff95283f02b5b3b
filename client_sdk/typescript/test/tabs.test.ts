/** Several clients of one storage, as tabs are: each value counts once, and a withdrawal in one holds in all. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { Client } from "../src/client.ts";
import { noteName, rawNote } from "../src/device/early.ts";
import { systemCoins, systemValues } from "../src/device/randomness.ts";
import { MemoryStorage } from "../src/storages/memory.ts";
import { FakeClock, MemoryShuffler } from "../src/testing.ts";
import { ledgerInWords, previewInWords } from "../src/words.ts";
import { type Any, vectors } from "./support.ts";

const codebook = JSON.parse(vectors("codebook.json")[0].compiled);
/** A mean of a whole day, whose greatest value is reported; a category of which the first value is. */
const [GREATEST, FIRST] = ["temperature", "theme"];
const value = codebook.metrics.find((metric: Any) => metric.name === FIRST).values[0];
const DAY = 86_400;

class Tabs {
  readonly clock = new FakeClock();
  readonly storage = new MemoryStorage();
  shuffler!: MemoryShuffler;

  static async of(): Promise<Tabs> {
    const tabs = new Tabs();
    tabs.shuffler = await MemoryShuffler.serving(codebook, tabs.clock);
    return tabs;
  }

  tab(options: Any = {}, parts: Any = {}): Client {
    return new Client(
      "https://telemetry.example.com",
      { trust: this.shuffler.trust, consent: true, background: false, maxEpsilon: null, ...options },
      {
        storage: this.storage,
        transport: this.shuffler.transport,
        clock: () => this.clock.now,
        running: () => this.clock.passed,
        sleep: async (seconds) => this.clock.advance(seconds),
        values: systemValues,
        coins: systemCoins,
        freshIsClosed: false,
        notesEarly: true,
        refusal: () => undefined,
        ...parts,
      },
    );
  }

  /** A value that a page noted before it had loaded the engine. */
  noted(metric: string, recorded: unknown, run: string, number = 1): void {
    this.storage.note(noteName(this.clock.now, run, number), rawNote(metric, recorded, this.clock.now)!);
  }
}

const send = (client: Client): Promise<boolean> => client.flush({ timeout: 0, now: true });

test("consent that is withdrawn in one tab is not taken up again by another, until somebody says yes", async () => {
  const tabs = await Tabs.of();
  let agrees = true;
  const [one, two] = [tabs.tab(), tabs.tab({ consent: () => agrees })];
  await send(one);
  await send(two);
  one.record(FIRST, value);
  agrees = false;
  await send(two);
  const before = tabs.shuffler.requests.length;
  for (let day = 0; day < 3; day++) {
    assert.equal(await send(one), false);
    assert.equal(one.record(FIRST, value), "disabled");
    tabs.clock.advance(DAY);
  }
  assert.equal(tabs.shuffler.requests.length, before);
  assert.deepEqual([tabs.storage.rows.get("about").since, (await one.preview()).takingPart], [undefined, false]);
  agrees = true;
  assert.equal(await send(two), true);
  assert.equal(await send(one), true);
  assert.equal(one.record(FIRST, value), "recorded");
  // A switch is no withdrawal: whoever was told yes goes on when it is back.
  await two.disable();
  assert.equal(one.record(FIRST, value), "disabled");
  await two.enable();
  assert.equal(await send(one), true);
  assert.equal(one.record(FIRST, value), "recorded");
});

test("a client that is told no, and then yes, begins again", async () => {
  const tabs = await Tabs.of();
  let agrees = true;
  const [one, two] = [tabs.tab({ consent: () => agrees }), tabs.tab({ consent: () => agrees })];
  await send(one);
  await send(two);
  agrees = false;
  await send(two);
  assert.equal(one.record(FIRST, value), "disabled");
  agrees = true;
  assert.equal(await send(one), true);
  assert.equal(one.record(FIRST, value), "recorded");
});

test("a value that was noted before the engine was there counts once, whoever takes it in", async () => {
  const tabs = await Tabs.of();
  await send(tabs.tab());
  tabs.noted(GREATEST, 1, "page");
  tabs.noted(GREATEST, 2, "page", 2);
  tabs.noted("no_such_metric", 2, "page", 3);
  for (const [i, damaged] of ["{", "null", "{}", '{"metric":"temperature","kept":1,"ended":0}'].entries())
    tabs.storage.note(noteName(tabs.clock.now, "damaged", i), damaged);
  const notes = tabs.storage.notes();
  const one = tabs.tab();
  const two = tabs.tab();
  await Promise.all([one.started, two.started]);
  for (const [name, text] of notes) tabs.storage.note(name, text); // as a crash, or a slow tab, would leave them
  const { pending } = await one.preview();
  assert.deepEqual(pending.map((each) => [each.metric, each.recorded, each.value]), [[GREATEST, 2, 2]]);
  assert.deepEqual(await two.preview().then((preview) => preview.pending), pending);
  assert.equal((one.stats()["late:invalid"] ?? 0) + (two.stats()["late:invalid"] ?? 0), 1);
});

test("a value waits in a note for the first codebook, and is in its period", async () => {
  const tabs = await Tabs.of();
  tabs.shuffler.offline = true;
  const one = tabs.tab();
  await send(one);
  assert.equal(one.record(GREATEST, 3), "waiting");
  await send(one);
  assert.equal(tabs.storage.notes().length, 1); // and the tab is gone
  tabs.shuffler.offline = false;
  const two = tabs.tab();
  assert.equal(await send(two), true);
  assert.deepEqual((await two.preview()).pending.map((each) => [each.metric, each.value]), [[GREATEST, 3]]);
  assert.equal(tabs.storage.notes().length, 0);
});

test("no more values than a limit wait for a codebook that never comes", async () => {
  const tabs = await Tabs.of();
  tabs.shuffler.offline = true;
  const one = tabs.tab();
  await send(one);
  for (let page = 0; page < 3; page++) for (let i = 0; i < 500; i++) tabs.noted(GREATEST, i % 9, `page${page}`, i);
  await send(one);
  assert.equal(tabs.storage.notes().length, 1000);
  assert.equal(one.stats()["lost:no-room"], 500);
  assert.equal(one.record(GREATEST, 1), "expired");
});

test("values that were noted before a withdrawal are not counted after it", async () => {
  const tabs = await Tabs.of();
  let agrees = true;
  const one = tabs.tab({ consent: () => agrees });
  await send(one);
  agrees = false;
  await send(one);
  tabs.noted(GREATEST, 4, "a page that does not know yet");
  tabs.clock.advance(60);
  agrees = true;
  await send(one);
  assert.deepEqual((await one.preview()).pending, []);
});

test("ledger and preview say what was chosen for fresh storage", async () => {
  for (const [freshIsClosed, said] of [[true, "wait"], [false, "report"], [undefined, null]] as const) {
    const tabs = await Tabs.of();
    const one = tabs.tab({}, { freshIsClosed });
    await send(one);
    const [ledger, preview] = [await one.ledger(), await one.preview()];
    assert.deepEqual([ledger.freshStorage, preview.freshStorage], [said, said]);
    assert.equal(ledger.closedBefore, freshIsClosed ? tabs.clock.now : null);
    for (const text of [ledgerInWords(ledger), previewInWords(preview)]) {
      assert.equal(/may have been reported twice/.test(text), said === "report");
      assert.equal(/Nothing is reported of periods that began before/.test(text), said === "wait");
    }
    // A later choice does not change what this storage began with.
    assert.equal((await tabs.tab({}, { freshIsClosed: !freshIsClosed }).ledger()).freshStorage, freshIsClosed ? "wait" : said === "report" ? "report" : "wait");
  }
});

test("fresh storage takes nothing on its UTC day, unless there is no limit for a day", async () => {
  const short = JSON.parse(vectors("codebook.json")[2].compiled); // four periods a day
  const [{ name, values }] = short.metrics;
  const length = short.collection.period;
  for (const maxEpsilon of [8, null]) {
    const tabs = new Tabs();
    tabs.shuffler = await MemoryShuffler.serving(short, tabs.clock);
    tabs.clock.advance(60);
    const one = tabs.tab({ maxEpsilon }, { freshIsClosed: true });
    const said = [];
    for (let period = 0; period < 3; period++) {
      await send(one);
      said.push(one.record(name, values[0]));
      tabs.clock.advance(length);
    }
    assert.deepEqual(said, ["over_budget", maxEpsilon === null ? "recorded" : "over_budget", "recorded"]);
  }
});
