/** The SDK for browsers: `new Client(address, {trust, consent})`. Importing does nothing, and on a server a client keeps
 * and sends nothing. */

import { Client as Core, type Options as CoreOptions, checkedAddress } from "./client.ts";
import { fetching } from "./device/transport.ts";
import { systemCoins, systemValues } from "./device/randomness.ts";
import { type Storage } from "./device/storage.ts";
import { BrowserStorage } from "./storages/browser.ts";
import { Nowhere } from "./storages/nowhere.ts";

export type { FlushOptions, Ledger, LedgerEntry, Outcome, Preview } from "./client.ts";

export interface Options extends CoreOptions {
  /** The name under which this site keeps its state: one for each collection. By default the address. */
  readonly storage?: string;
  /** What storage that is new or was cleared does, since it cannot know what was spent before: `wait` for the next
   * period and UTC day, or `report` at once. */
  readonly freshStorage?: "wait" | "report";
}

const storageNamed = (name: string): Storage => {
  try {
    if (crypto.subtle) return new BrowserStorage(name);
  } catch {
    // not in a page, or one that may keep nothing
  }
  return new Nowhere();
};

const refusal = (): string | undefined => {
  const { globalPrivacyControl, doNotTrack } = (globalThis.navigator ?? {}) as Navigator & { globalPrivacyControl?: boolean };
  return globalPrivacyControl === true || doNotTrack === "1" ? "the browser says Do Not Track or Global Privacy Control" : undefined;
};

export class Client extends Core {
  constructor(address: string, options: Options) {
    const base = checkedAddress(address);
    super(base, options, {
      storage: storageNamed("hubbub " + (options.storage ?? base)),
      transport: fetching(base),
      clock: () => Date.now() / 1000,
      running: () => performance.now() / 1000,
      sleep: (seconds) => new Promise((resolve) => setTimeout(resolve, seconds * 1000)),
      values: systemValues,
      coins: systemCoins,
      freshIsClosed: options.freshStorage !== "report",
      refusal,
    });
  }
}
