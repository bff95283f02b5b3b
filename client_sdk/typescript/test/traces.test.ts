/** The traces of ledger.json: what a device does over time, played through the public client. */

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";

import { Client } from "../src/client.ts";
import { type Transport } from "../src/device/device.ts";
import { hex, unhex } from "../src/protocol/bytes.ts";
import { sealInfo } from "../src/protocol/wire.ts";
import { MemoryStorage } from "../src/storages/memory.ts";
import { opened } from "./open.ts";
import { type Any, answerOf, streamOf, vectors } from "./support.ts";

const ADDRESS = "https://telemetry.example.com";

/** A shuffler that serves the bundle it is told to, answers uploads as it is told to, and notes all requests. */
class FrontDoor {
  bundle: string | undefined;
  offline = false;
  answers: Any[] = [];
  requests: Any[] = [];
  readonly #keys: Record<string, string>;
  readonly #sent = new Set<string>();

  constructor(keys: Record<string, string>) {
    this.#keys = keys;
  }

  readonly request: Transport = (method, path, headers, body) => {
    let noted: Any = { get: path };
    let answer: Any = this.#ofBundle(headers["If-None-Match"]);
    if (method === "POST") {
      assert.equal(headers["Content-Type"], "application/vnd.hubbub.reports");
      noted = { post: path, reports: this.#opened(body!) };
      answer = this.answers.length ? this.answers.shift() : { status: 202, body: "" };
    }
    if (this.offline) answer = null;
    this.requests.push({ ...noted, status: answer ? answer.status : null });
    return Promise.resolve(answerOf(answer));
  };

  #ofBundle(tag: string | undefined): Any {
    if (this.bundle === undefined) return { status: 503, body: "" };
    const own = createHash("sha256").update(this.bundle, "latin1").digest("hex").slice(0, 32);
    return tag === `"${own}"` ? { status: 304, body: "" } : { status: 200, body: this.bundle };
  }

  #opened(body: Uint8Array): Any[] {
    const reports = [];
    for (let at = 0; at < body.length; ) {
      const size = (body[at]! << 8) | body[at + 1]!;
      const one = body.slice(at + 2, at + 2 + size);
      at += 2 + size;
      const metric = hex(one.subarray(1, 17));
      const key = one[21]!;
      const text = unhex(opened(this.#keys[key]!, sealInfo(metric, key), one.slice(22)));
      assert.deepEqual([one[0], hex(one.subarray(17, 21))], [1, hex(text.subarray(0, 4))]);
      const period = new DataView(text.buffer).getUint32(0);
      const bytes = hex(one);
      reports.push({ metric, period, key, nonce: hex(text.subarray(4, 20)), payload: hex(text.subarray(20)), again: this.#sent.has(bytes) });
      this.#sent.add(bytes);
    }
    return reports;
  }
}

/** The word of the traces for an outcome that a device may name more exactly. */
const GENERAL: Record<string, string> = { short_period: "over_budget", not_pinned: "disabled" };

/** As C's %.10g writes it, for the numbers of these traces. */
const shown = (value: number): string => String(Number(value.toPrecision(10)));

class Player {
  readonly #trace: Any;
  readonly #world: Any;
  readonly #door: FrontDoor;
  #storage = new MemoryStorage();
  #now: number;
  #passed = 0;
  #consent = true;
  #values = streamOf("");
  #account: Any = { spent: "0", spent_today: "0", waiting: 0, decisions: new Map() };
  #client: Client;

  constructor(trace: Any, world: Any) {
    this.#trace = trace;
    this.#world = world;
    this.#now = trace.starts_at;
    this.#door = new FrontDoor(world.private_keys);
    this.#client = this.#started();
  }

  async play(): Promise<void> {
    for (const [i, event] of this.#trace.events.entries()) {
      this.#values = streamOf(`${this.#trace.name}:value:${i}`);
      const then = { ...(await this.#after(event)), ...(await this.#changes()) };
      assert.deepEqual(then, event.then ?? {}, `${this.#trace.name}: event ${i}: ${JSON.stringify(event).slice(0, 200)}`);
    }
    await this.#client.close();
  }

  async #after(event: Any): Promise<Any> {
    switch (event.do) {
      case "wait":
        this.#now += event.milliseconds;
        this.#passed += event.milliseconds;
        break;
      case "set the clock":
        this.#now = event.to;
        break;
      case "serve":
        this.#door.bundle = this.#world.bundles[event.bundle];
        break;
      case "answer uploads":
        this.#door.answers.push(...event.with);
        break;
      case "cut the network":
      case "mend the network":
        this.#door.offline = event.do.startsWith("cut");
        break;
      case "give consent":
      case "withdraw consent":
        this.#consent = event.do.startsWith("give");
        break;
      case "record": {
        const outcome = this.#client.record(event.metric, event.value);
        return { outcome: GENERAL[outcome] ?? outcome };
      }
      case "flush":
      case "flush now": {
        this.#door.requests = [];
        const done = await this.#client.flush({ timeout: 0, now: event.do === "flush now" });
        return { requests: this.#door.requests, nothing_left: done };
      }
      case "disable":
        await this.#client.disable();
        break;
      case "enable":
        await this.#client.enable();
        break;
      case "restart":
      case "clear the state":
        await this.#client.close();
        if (event.do === "clear the state") this.#storage = new MemoryStorage();
        this.#client = this.#started();
        await this.#client.started;
        break;
      default:
        throw new Error(`no such event: ${event.do}`);
    }
    return {};
  }

  async #changes(): Promise<Any> {
    const ledger = await this.#client.ledger();
    const found: Any = { spent: shown(ledger.spent), spent_today: shown(ledger.spentToday), waiting: this.#client.stats().outbox };
    const changed = Object.fromEntries(Object.entries(found).filter(([name, value]) => value !== this.#account[name]));
    const decisions = new Map<string, Any>();
    for (const { name, periods } of ledger.metrics)
      for (const { start, end, decision, epsilon } of periods)
        decisions.set(`${name} ${start} ${end}`, { metric: name, start, end, decision, epsilon: shown(epsilon) });
    const fresh = [...decisions]
      .filter(([key, entry]) => JSON.stringify(entry) !== JSON.stringify(this.#account.decisions.get(key)))
      .map(([, entry]) => entry)
      .sort((one, two) => (one.metric === two.metric ? one.start - two.start || one.end - two.end : one.metric < two.metric ? -1 : 1));
    this.#account = { ...found, decisions };
    return { ...changed, ...(fresh.length ? { decisions: fresh } : {}) };
  }

  #started(): Client {
    const { settings, name } = this.#trace;
    const options = {
      trust: this.#world.trust,
      consent: () => this.#consent,
      background: false,
      maxEpsilon: settings.max_epsilon === undefined ? null : Number(settings.max_epsilon),
      lifetimeEpsilon: settings.lifetime_epsilon === undefined ? null : Number(settings.lifetime_epsilon),
      minPeriod: settings.min_period ?? null,
      ...(settings.pin === undefined ? {} : { pin: settings.pin }),
      ...(settings.codebook === undefined ? {} : { codebook: JSON.parse(settings.codebook) }),
    };
    return new Client(ADDRESS, options, {
      storage: this.#storage,
      transport: this.#door.request,
      clock: () => this.#now / 1000,
      running: () => this.#passed / 1000,
      sleep: () => Promise.reject(new Error("a flush without a timeout waits")),
      values: (n) => this.#values(n),
      coins: (purpose, subject, number) => streamOf(`${name}:${purpose}:${subject}:${number}`),
      freshIsClosed: false,
      refusal: () => undefined,
    });
  }
}

const data = vectors("ledger.json");
for (const trace of data.traces)
  test(`ledger.json: ${trace.name}`, async () => {
    const player = new Player(trace, data);
    await player.play();
  });

