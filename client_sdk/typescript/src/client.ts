/** The client that an app calls. It does nothing without consent, and nothing that could hurt its host. */

import { type Outcome } from "./generated/outcomes.ts";
import { FIRST_CYCLE_AFTER, TICK } from "./generated/up_front.ts";
import { anchorsOf, isLoopback } from "./device/address.ts";
import { type Ledger, type Preview, ledgerOf, previewOf } from "./device/account.ts";
import { hear, isWithdrawnElsewhere } from "./device/consent.ts";
import { flush, guarded, run, settleAll, start, takeIn } from "./device/cycle.ts";
import { type Device, type Parts } from "./device/device.ts";
import { type LimitOptions, limitsOf } from "./device/limits.ts";
import { REPORT } from "./device/outbox.ts";
import { Mistake, take } from "./device/record.ts";
import { rowsOf } from "./device/storage.ts";
import { hex } from "./protocol/bytes.ts";
import { type Json } from "./protocol/canonical.ts";
import { readCodebook } from "./protocol/codebook.ts";
import { Refused } from "./protocol/refused.ts";

export type { Outcome } from "./generated/outcomes.ts";
export type { Ledger, LedgerEntry, Preview } from "./device/account.ts";

export interface Options extends LimitOptions {
  /** The signers whose bundles are accepted: the line that the aggregator prints. Null only for an address on this
   * machine: then the first signer is trusted from then on. */
  readonly trust: string | readonly string[] | null;
  /** The person's answer, or a function that returns it, asked each time. Only true is a yes. */
  readonly consent: boolean | (() => boolean);
  /** The compiled codebook that ships with the app. Values are recorded by it until the first bundle arrives. */
  readonly codebook?: object;
  /** Throw an error for an unknown metric or a wrong value, instead of only counting it. */
  readonly strict?: boolean;
  /** Send from a timer, from the start. Without it, call `flush` from a timer of your own, never because something was
   * recorded: that could be seen. */
  readonly background?: boolean;
}

/** What `flush` takes: seconds for retries (0 tries once), and whether to send reports whose random delay is not over.
 * That may tell an observer when a value was recorded, so it is for tests and demos. */
export interface FlushOptions {
  readonly timeout?: number;
  readonly now?: boolean;
}

const MOST_NOTES = 100;
const SPENT = "over_budget: this period has its report, a limit is reached, or the storage is new and waits for the next period; see ledger()";

export class Client {
  readonly #device: Device;
  readonly #counts = new Map<string, number>();
  readonly #isInDevelopment: boolean;
  readonly #wakes: boolean;
  /** Resolves once what is kept was read. Values that are recorded before wait in memory. */
  readonly started: Promise<void>;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #isClosing = false;
  #noted = 0;

  constructor(address: string, options: Options, parts: Parts) {
    const { trust, consent, codebook, strict = false, background = true } = options;
    if (typeof consent !== "boolean" && typeof consent !== "function")
      throw new TypeError("consent is true, false or a function that returns one of them: pass what the person answered");
    this.#isInDevelopment = strict || isLoopback(address);
    this.#device = {
      ...parts,
      limits: limitsOf(options),
      anchors: anchorsOf(trust, address),
      strict,
      agrees: () => {
        try {
          if (parts.storage.isOff()) return false;
          if (!this.#whyNot() && (typeof consent === "function" ? consent() : consent) === true) return true;
        } catch {
          // a function that fails says no, and so does storage that cannot be asked
        }
        this.#device.heard = undefined;
        return false;
      },
      count: (name, by = 1) => this.#count(name, by),
      rows: new Map(),
      pages: new Map(),
      refused: false,
      outdated: false,
      fetchFailed: false,
      cannotKeep: false,
      heard: undefined,
      queue: [...(parts.early ?? [])],
      waitingNotes: parts.earlyNotes ?? 0,
      run: hex(crypto.getRandomValues(new Uint8Array(8))),
    };
    this.#wakes = background;
    const { early = [], earlyNotes = 0 } = parts;
    if (early.length + earlyNotes) this.#count("waiting", early.length + earlyNotes);
    this.started = this.#alone(async () => {
      if (codebook) this.#device.shipped = await readCodebook(codebook as Json, false);
      await start(this.#device);
      if (this.#device.rows.size) await takeIn(this.#device);
    }).then(() => undefined);
    if (consent !== false) this.#wake(FIRST_CYCLE_AFTER);
  }

  /** Record one value. Never throws unless strict, never touches the network, keeps nothing without consent. */
  record(name: string, value: unknown): Outcome {
    let outcome: Outcome = "invalid";
    try {
      outcome = this.#record(name, value);
    } catch (error) {
      if (error instanceof Mistake) {
        this.#say(error.message);
        if (this.#device.strict) throw error;
      } else if (!(error instanceof Refused)) outcome = "no_durable_state";
    } finally {
      this.#count(outcome);
      if (outcome === "over_budget") this.#say(SPENT);
    }
    return outcome;
  }

  /** Send the reports that are due. True: all of them were delivered, or dropped for a stated reason. */
  async flush({ timeout = 10, now = false }: FlushOptions = {}): Promise<boolean> {
    const done = await this.#alone(() => flush(this.#device, timeout, now), timeout + 1);
    if (!done && !this.#device.agrees()) this.#say(this.#whyNot() ?? "nothing is kept or sent: there is no consent");
    return done ?? false;
  }

  /** Stop recording, and randomize the values that are due. The next start sends the rest. */
  async close(): Promise<void> {
    if (this.#isClosing) return;
    this.#isClosing = true;
    clearTimeout(this.#timer);
    await this.#alone(async () => (await hear(this.#device)) && settleAll(this.#device));
    if (this.#device.queue.length) this.#count("lost:closed", this.#device.queue.length);
    this.#device.storage.close();
  }

  /** Switch off for good: nothing is kept or sent from now on, and what was kept is deleted, except the ledger. It holds
   * for every client of this storage until `enable`. False: it could not be written, and holds for this page only. */
  async disable(): Promise<boolean> {
    const isWritten = this.#device.storage.switchOff(true);
    await this.#alone(() => hear(this.#device));
    return isWritten;
  }

  /** Undo `disable`. This is not consent: `consent` must still say yes. */
  async enable(): Promise<boolean> {
    const isWritten = this.#device.storage.switchOff(false);
    await this.#alone(() => start(this.#device));
    this.#wake(FIRST_CYCLE_AFTER);
    return isWritten;
  }

  /** What is collected, what waits on this device, and what will be sent. For the person. */
  async preview(): Promise<Preview> {
    await this.#takeIn();
    return previewOf(this.#device);
  }

  /** What was spent, on what, and what is left. */
  async ledger(): Promise<Ledger> {
    await this.#takeIn();
    return ledgerOf(this.#device);
  }

  /** Counters since this client was made. `outbox` is the number of reports in the outbox. */
  stats(): Record<string, number> {
    return { ...Object.fromEntries(this.#counts), outbox: rowsOf(this.#device.rows, REPORT).length };
  }

  #record(name: string, value: unknown): Outcome {
    const d = this.#device;
    if (this.#isClosing || !d.agrees() || isWithdrawnElsewhere(d)) {
      d.queue = [];
      return "disabled";
    }
    if (d.cannotKeep) return "no_durable_state";
    const outcome = take(d, name, value, d.clock(), d.clock());
    // Many notes are taken in before the next cycle. Nothing of this shows outside.
    if (outcome === "recorded" && ++this.#noted % MOST_NOTES === 0) setTimeout(() => void this.#takeIn(), 0);
    return outcome;
  }

  #whyNot(): string | undefined {
    return this.#device.refusal();
  }

  /** Bring the notes into the rows, if anything is kept. */
  async #takeIn(): Promise<void> {
    await this.started;
    const d = this.#device;
    if (d.agrees()) await guarded(d, () => takeIn(d));
  }

  #alone<T>(act: () => Promise<T>, seconds = 10): Promise<T | undefined> {
    const d = this.#device;
    return guarded(d, () => d.storage.alone(() => guarded(d, act), seconds * 1000));
  }

  #wake(seconds: number): void {
    if (!this.#wakes || this.#isClosing) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.#work(), seconds * 1000);
    (this.#timer as { unref?: () => void }).unref?.();
  }

  async #work(): Promise<void> {
    const next = await this.#alone(() => run(this.#device), 0);
    this.#wake(Math.max(next ?? TICK, 0.1));
  }

  #count(name: string, by = 1): void {
    this.#counts.set(name, (this.#counts.get(name) ?? 0) + by);
    if (name.includes(":")) this.#say(this.#device.explain?.(name) ?? name);
  }

  #said = new Set<string>();

  /** Tell a developer, once for each cause. No text ever holds a recorded value. */
  #say(text: string): void {
    if (!this.#isInDevelopment || this.#said.has(text) || this.#said.size > 200) return;
    this.#said.add(text);
    console.warn("hubbub: " + text);
  }
}
