/** The SDK for browsers: `new Client(address, {trust, consent})`. Importing does nothing. This module is small; the engine
 * is loaded once there is consent. On a server, a client keeps and sends nothing. */

import type { Client as Engine, FlushOptions, Ledger, Options as CoreOptions, Outcome, Preview } from "./client.ts";
import type { Early } from "./device/device.ts";
import { anchorsOf, checkedAddress } from "./device/address.ts";
import { noteName, rawNote } from "./device/early.ts";
import { FIRST_CYCLE_AFTER, MOST_WAITING, TICK } from "./generated/up_front.ts";

export type { FlushOptions, Ledger, LedgerEntry, Outcome, Preview } from "./client.ts";

export interface Options extends CoreOptions {
  /** The name under which this site keeps its state: one for each collection. By default the address. */
  readonly storage?: string;
  /** What storage that is new or was cleared does, since it cannot know what was spent before: `wait` for the next
   * period and UTC day, or `report` at once. */
  readonly freshStorage?: "wait" | "report";
}

/** What the person says to all sites. */
const refusal = (): string | undefined => {
  const { globalPrivacyControl, doNotTrack } = navigator as Navigator & { globalPrivacyControl?: boolean };
  return globalPrivacyControl === true || doNotTrack === "1" ? "the browser says Global Privacy Control or Do Not Track" : undefined;
};

/** Whether this is a page that may keep anything. */
const isPage = (): boolean => {
  try {
    return !!localStorage && !!crypto.subtle && !!navigator.locks;
  } catch {
    return false;
  }
};

export class Client {
  readonly #base: string;
  readonly #name: string;
  readonly #options: Options;
  readonly #isPage = isPage();
  /** What waits for the engine in memory; what waits in notes outlives this page. */
  #early: Early[] = [];
  #run = "";
  #noted = 0;
  #engine: Engine | undefined;
  #loading: Promise<Engine> | undefined;
  #isClosed = false;

  constructor(address: string, options: Options) {
    this.#base = checkedAddress(address);
    this.#name = "hubbub " + (options.storage ?? this.#base);
    this.#options = options;
    anchorsOf(options.trust, address);
    if (!["boolean", "function"].includes(typeof options.consent))
      throw new TypeError("consent is true, false or a function that returns one of them: pass what the person answered");
    this.#look(FIRST_CYCLE_AFTER);
  }

  /** Record one value. Never throws unless strict, never touches the network, keeps nothing without consent. */
  record(name: string, value: unknown): Outcome {
    if (this.#engine) return this.#engine.record(name, value);
    if (!this.#isPage) return "no_durable_state";
    if (this.#isClosed || !this.#agrees()) {
      this.#early = [];
      return "disabled";
    }
    if (this.#early.length + this.#noted >= MOST_WAITING) return "expired";
    const at = Date.now() / 1000;
    const text = rawNote(name, value, at);
    if (text === undefined) this.#early.push([name, value, at]);
    else if (!this.#note(at, text)) return "no_durable_state";
    return "waiting";
  }

  /** Write a note, as the engine writes its own. */
  #note(at: number, text: string): boolean {
    try {
      // Where no engine can be loaded, notes of many pages must not fill the site's storage.
      if (!this.#noted && localStorage.length > MOST_WAITING) return false;
      this.#run ||= crypto.randomUUID();
      localStorage.setItem(`${this.#name} note ${noteName(at, this.#run, ++this.#noted)}`, text);
      localStorage.setItem(this.#name, "1");
      return true;
    } catch {
      return false;
    }
  }

  /** Send the reports that are due. True: all of them were delivered, or dropped for a stated reason. */
  async flush(options?: FlushOptions): Promise<boolean> {
    if (!this.#isPage || !(this.#agrees() || this.#has(""))) return false;
    const engine = await this.#load().catch(() => undefined);
    return engine ? engine.flush(options) : false;
  }

  /** Stop recording, and randomize the values that are due. The next page sends the rest. */
  async close(): Promise<void> {
    this.#isClosed = true;
    const engine = await this.#loading?.catch(() => undefined);
    await engine?.close();
  }

  /** Switch off for good: nothing is kept or sent from now on, and what was kept is deleted, except the ledger. It holds
   * for every page of this site until `enable`. False: it could not be written, and holds for this page only. */
  async disable(): Promise<boolean> {
    if (!this.#isPage) return false;
    let isWritten = true;
    try {
      localStorage.setItem(this.#name + " off", "1");
    } catch {
      isWritten = false;
    }
    this.#early = [];
    const engine = await this.#load().catch(() => undefined);
    if (engine) return engine.disable();
    // Without the engine, the next page deletes what was kept.
    this.#isClosed ||= !isWritten;
    return isWritten;
  }

  /** Undo `disable`. This is not consent: `consent` must still say yes. */
  async enable(): Promise<boolean> {
    const engine = this.#isPage ? await this.#load().catch(() => undefined) : undefined;
    return engine ? engine.enable() : false;
  }

  /** What is collected, what waits in this browser, and what will be sent: for the person to see. */
  async preview(): Promise<Preview> {
    return (await this.#load()).preview();
  }

  /** What was spent, on what, and what is left. */
  async ledger(): Promise<Ledger> {
    return (await this.#load()).ledger();
  }

  /** Counters since this client was made: outcomes, what became of reports, what went wrong. */
  stats(): Record<string, number> {
    return this.#engine?.stats() ?? { waiting: this.#early.length + this.#noted };
  }

  #agrees(): boolean {
    const { consent } = this.#options;
    try {
      return !refusal() && !this.#has(" off") && (typeof consent === "function" ? consent() : consent) === true;
    } catch {
      return false;
    }
  }

  /** Load the engine if there is consent; or if anything was kept while there was. */
  #look(seconds: number): void {
    if (!this.#isPage || this.#loading || this.#isClosed) return;
    const { consent, background = true } = this.#options;
    if (!background || (consent === false && !this.#has(""))) return;
    setTimeout(() => {
      if (this.#agrees() || this.#has("")) this.#load().catch(() => this.#look(TICK));
      else this.#look(TICK);
    }, seconds * 1000);
  }

  /** Whether there is an entry: "" for anything that was kept, " off" for the switch. */
  #has(what: string): boolean {
    return localStorage.getItem(this.#name + what) !== null;
  }

  #load(): Promise<Engine> {
    this.#loading ??= import("./engine.ts").then(
      ({ startEngine }) => {
        const { freshStorage } = this.#options;
        this.#engine = startEngine(this.#base, this.#name, this.#options, freshStorage !== "report", refusal, this.#early, this.#noted);
        this.#early = [];
        return this.#engine;
      },
      (error: unknown) => {
        this.#loading = undefined;
        throw error;
      },
    );
    return this.#loading;
  }
}
