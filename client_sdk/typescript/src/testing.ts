/** Test kit for apps: a device with a shuffler in memory and a clock that the test moves. Randomness stays the system's:
 * assert on the number, metric and period of reports, never on their value. */

import { Client, type Options, type Outcome } from "./client.ts";
import { SUITE } from "./generated/wire.ts";
import { type Transport } from "./device/device.ts";
import { systemCoins, systemValues } from "./device/randomness.ts";
import { BUNDLE_FORMAT, LABEL_BUNDLE } from "./generated/limits.ts";
import { type Bytes, base64url, concat, hex, sha256, utf8 } from "./protocol/bytes.ts";
import { type Members, canonical } from "./protocol/canonical.ts";
import { codebookId } from "./protocol/codebook.ts";
import { open } from "./protocol/open.ts";
import { endOf, periodOf, startOf } from "./protocol/period.ts";
import { sealInfo } from "./protocol/wire.ts";
import { MemoryStorage } from "./storages/memory.ts";

export { MemoryStorage } from "./storages/memory.ts";
export { Client, type Options, type Outcome, type Ledger, type Preview } from "./client.ts";

const ADDRESS = "https://telemetry.example.com";
const LIFETIME = 30 * 86_400;
const MAX_AGE = 3600;
const MIN_BATCH = 100;
const LAST_PERIOD = 2 ** 31;

/** The time of day and the monotonic time, both under the test's control, in seconds. */
export class FakeClock {
  now: number;
  passed = 0;

  constructor(start = "2026-01-05T12:00:00Z") {
    this.now = Date.parse(start) / 1000;
  }

  advance(seconds: number): void {
    this.now += seconds;
    this.passed += seconds;
  }
}

/** One report that arrived, as the aggregator reads it. */
export interface SentReport {
  readonly metric: string;
  /** The start of the period, in Unix seconds. */
  readonly start: number;
  /** The randomized value in hexadecimal digits. It may be any, whatever was recorded. */
  readonly payload: string;
  /** The same in every copy of this report, and in no other. */
  readonly nonce: string;
}

/** A shuffler in memory, and the aggregator behind it, which can read the reports. */
export class MemoryShuffler {
  /** While true, every request fails. */
  offline = false;
  readonly requests: { readonly method: string; readonly path: string }[] = [];
  trust = "";
  readonly #clock: FakeClock;
  readonly #names = new Map<string, string>();
  readonly #received = new Map<string, SentReport>();
  #codebooks: [first: number, document: Members][] = [];
  #signing!: CryptoKeyPair;
  #sealing!: CryptoKeyPair;
  #publicKey!: Bytes;
  #envelope: Bytes = new Uint8Array();
  #issued = 0;
  #sequence = 0;

  private constructor(clock: FakeClock) {
    this.#clock = clock;
  }

  /** A shuffler that serves a codebook, as `hubbub codebook compile` writes it. */
  static async serving(codebook: object, clock = new FakeClock()): Promise<MemoryShuffler> {
    const made = new MemoryShuffler(clock);
    made.#signing = (await crypto.subtle.generateKey("Ed25519", true, ["sign", "verify"])) as CryptoKeyPair;
    made.#sealing = (await crypto.subtle.generateKey("X25519", true, ["deriveBits"])) as CryptoKeyPair;
    made.#publicKey = await raw(made.#sealing.publicKey);
    made.trust = "ed25519:" + base64url(await raw(made.#signing.publicKey));
    await made.publish(codebook);
    return made;
  }

  /** Seconds of a period. */
  get period(): number {
    return (this.#codebooks[0]![1].collection as Members).period as number;
  }

  /** Put another codebook in force from the next period on. Devices get it when they next fetch the bundle. */
  async publish(codebook: object): Promise<void> {
    const given = structuredClone(codebook) as Members;
    const metrics = (given.metrics as Members[]).map((metric) => ({ ...metric, min_batch: metric.min_batch ?? MIN_BATCH }));
    const document: Members = { ...given, metrics };
    document.id = await codebookId(document);
    for (const metric of metrics as Members[]) this.#names.set(metric.id as string, metric.name as string);
    const first = this.#codebooks.length ? periodOf(this.#clock.now, this.period) + 1 : 0;
    this.#codebooks = [...this.#codebooks.filter(([other]) => other < first), [first, document]];
    await this.#sign();
  }

  async #sign(): Promise<void> {
    this.#issued = Math.floor(this.#clock.now);
    this.#sequence = Math.max(this.#sequence + 1, this.#issued);
    const key = { id: 1, suite: SUITE, public_key: base64url(this.#publicKey), first_period: 0, last_period: LAST_PERIOD, state: "active" };
    const body = canonical({
      format: BUNDLE_FORMAT,
      collection: (this.#codebooks[0]![1].collection as Members).name!,
      sequence: this.#sequence,
      issued: this.#issued,
      expires: this.#issued + LIFETIME,
      max_age: MAX_AGE,
      codebooks: this.#codebooks.map(([first, codebook]) => ({ first_period: first, codebook })),
      keys: [key],
    });
    const signature = await crypto.subtle.sign("Ed25519", this.#signing.privateKey, concat(utf8(LABEL_BUNDLE), utf8(body)));
    this.#envelope = utf8(`${BUNDLE_FORMAT}\n${this.trust} ${base64url(new Uint8Array(signature))}\n${body}`);
  }

  readonly transport: Transport = async (method, path, headers, body) => {
    this.requests.push({ method, path });
    if (this.offline) return undefined;
    const empty = { type: "", retryAfter: "", body: new Uint8Array() };
    if (method === "POST") {
      await this.#take(body!);
      return { ...empty, status: 202 };
    }
    if (this.#clock.now < this.#issued || this.#clock.now > this.#issued + LIFETIME / 2) await this.#sign();
    const tag = `"${(await sha256(this.#envelope)).slice(0, 32)}"`;
    return headers["If-None-Match"] === tag ? { ...empty, status: 304 } : { ...empty, status: 200, body: this.#envelope };
  };

  async #take(body: Bytes): Promise<void> {
    for (let at = 0; at < body.length; ) {
      const size = body[at]! * 256 + body[at + 1]!;
      const one = body.slice(at + 2, at + 2 + size);
      at += 2 + size;
      const id = hex(one.subarray(1, 17));
      const text = await open(this.#sealing.privateKey, this.#publicKey, sealInfo(id, one[21]!), one.slice(22));
      const nonce = hex(text.subarray(4, 20));
      const start = startOf(parseInt(hex(text.subarray(0, 4)), 16), this.period);
      this.#received.set(nonce, { metric: this.#names.get(id) ?? id, start, payload: hex(text.subarray(20)), nonce });
    }
  }

  /** The reports that arrived, of one metric or of all, each once, however often it was sent. */
  received(metric?: string): SentReport[] {
    return [...this.#received.values()].filter((report) => metric === undefined || report.metric === metric);
  }
}

const raw = async (key: CryptoKey): Promise<Bytes> => new Uint8Array(await crypto.subtle.exportKey("raw", key));

/** A client whose network, clock and consent the test controls. It is strict, so a mistake is an error. */
export class Device {
  client!: Client;
  readonly clock: FakeClock;
  readonly shuffler: MemoryShuffler;
  /** What the person answers. A test may change it at any time. */
  consent = true;
  /** Each call of `record`, as the app made it. */
  readonly recorded: { readonly metric: string; readonly value: unknown; readonly outcome: Outcome }[] = [];
  readonly #storage = new MemoryStorage();
  readonly #options: Partial<Options>;

  private constructor(shuffler: MemoryShuffler, clock: FakeClock, options: Partial<Options>) {
    this.shuffler = shuffler;
    this.clock = clock;
    this.#options = options;
  }

  /** A device of a codebook as `hubbub codebook compile` writes it, with its bundle, like an app that has run before. */
  static async of(codebook: object, options: Partial<Options> = {}, clock = new FakeClock()): Promise<Device> {
    const device = new Device(await MemoryShuffler.serving(codebook, clock), clock, options);
    await device.#start();
    return device;
  }

  async #start(): Promise<void> {
    const { recorded } = this;
    class Watched extends Client {
      override record(metric: string, value: unknown): Outcome {
        const outcome = super.record(metric, value);
        recorded.push({ metric, value, outcome });
        return outcome;
      }
    }
    const options = { trust: this.shuffler.trust, consent: () => this.consent, strict: true, background: false, ...this.#options };
    this.client = new Watched(ADDRESS, options, {
      storage: this.#storage,
      transport: this.shuffler.transport,
      clock: () => this.clock.now,
      running: () => this.clock.passed,
      sleep: (seconds) => Promise.resolve(this.clock.advance(seconds)),
      values: systemValues,
      coins: systemCoins,
      refusal: () => undefined,
    });
    await this.client.flush({ timeout: 0 });
  }

  /** Send all reports that are due, without their random delay, and return all that ever arrived. */
  async reportsSent(metric?: string): Promise<SentReport[]> {
    await this.client.flush({ timeout: 0, now: true });
    return this.shuffler.received(metric);
  }

  /** Let periods end. Reports that are due are sent on the way, as a running app would send them. */
  async nextPeriod(count = 1): Promise<void> {
    for (; count > 0; count--) {
      await this.client.flush({ timeout: 0, now: true });
      const { period } = this.shuffler;
      this.clock.advance(endOf(periodOf(this.clock.now, period), period) - this.clock.now);
      await this.client.flush({ timeout: 0 });
    }
  }

  /** Let the app end and start again with the same state. */
  async restart(): Promise<void> {
    await this.client.close();
    await this.#start();
  }

  async close(): Promise<void> {
    await this.client.close();
  }
}
