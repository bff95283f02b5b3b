/** The SDK for browsers: `new Client(address, {trust, consent})`. Importing does nothing. This module is small; the engine
 * is loaded once there is consent. On a server, a client keeps and sends nothing. */

import type { Client as Engine, FlushOptions, Ledger, Options as CoreOptions, Outcome, Preview } from "./client.ts";
import type { Early } from "./device/device.ts";
import { anchorsOf, checkedAddress } from "./device/address.ts";
import { FIRST_CYCLE_AFTER, MOST_WAITING, TICK } from "./generated/limits.ts";

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
  #early: Early[] = [];
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
    if (!this.#agrees() || this.#isClosed) {
      this.#early = [];
      return "disabled";
    }
    if (this.#early.length >= MOST_WAITING) return "expired";
    this.#early.push([name, value, Date.now() / 1000]);
    return "waiting";
  }

  /** Send the reports that are due. True: all of them were delivered, or dropped for a stated reason. */
  async flush(options?: FlushOptions): Promise<boolean> {
    return this.#isPage && (this.#agrees() || this.#hasKept()) ? (await this.#load()).flush(options) : false;
  }

  /** Stop recording, and randomize the values that are due. The next page sends the rest. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await (await this.#loading)?.close();
  }

  /** Switch off for good: nothing is kept or sent from now on, and what was kept is deleted, except the ledger. It holds
   * for every page of this site until `enable`. False: it could not be written, and holds for this page only. */
  async disable(): Promise<boolean> {
    return this.#isPage && (await this.#load()).disable();
  }

  /** Undo `disable`. This is not consent: `consent` must still say yes. */
  async enable(): Promise<boolean> {
    return this.#isPage && (await this.#load()).enable();
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
    return this.#engine?.stats() ?? { waiting: this.#early.length };
  }

  #agrees(): boolean {
    const { consent } = this.#options;
    try {
      return !refusal() && (typeof consent === "function" ? consent() : consent) === true;
    } catch {
      return false;
    }
  }

  /** Load the engine if there is consent; or if anything was kept while there was. */
  #look(seconds: number): void {
    if (!this.#isPage || this.#loading || this.#isClosed) return;
    const { consent, background = true } = this.#options;
    if (!background || (consent === false && !this.#hasKept())) return;
    setTimeout(() => {
      if (this.#agrees() || this.#hasKept()) this.#load().catch(() => this.#look(TICK));
      else this.#look(TICK);
    }, seconds * 1000);
  }

  #hasKept(): boolean {
    return localStorage.getItem(this.#name) !== null;
  }

  #load(): Promise<Engine> {
    this.#loading ??= import("./engine.ts").then(
      ({ startEngine }) => {
        const { freshStorage } = this.#options;
        this.#engine = startEngine(this.#base, this.#name, this.#options, freshStorage !== "report", refusal, this.#early);
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
