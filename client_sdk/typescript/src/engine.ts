/** The engine of the browser's client, which loads it once there is consent: everything but the first record. */

import { Client, type Options } from "./client.ts";
import { type Early } from "./device/device.ts";
import { systemCoins, systemValues } from "./device/randomness.ts";
import { type Storage } from "./device/storage.ts";
import { fetching } from "./device/transport.ts";
import { BrowserStorage } from "./storages/browser.ts";
import { Nowhere } from "./storages/nowhere.ts";

const storageNamed = (name: string): Storage => {
  try {
    return new BrowserStorage(name);
  } catch {
    return new Nowhere(); // a sandboxed frame, or a page without a secure context
  }
};

/** To a page, a shuffler that does not list its origin looks like one that is not there. */
const unreachable = (base: string): string =>
  `no codebook from ${base}: is it up, and is ${location.origin} in its CORS_ORIGINS (HUBBUB_SHUFFLER_CORS_ORIGINS)?`;

/** A client, with what was recorded before it was loaded. */
export const startEngine = (
  base: string,
  name: string,
  options: Options,
  freshIsClosed: boolean,
  refusal: () => string | undefined,
  early: readonly Early[],
  earlyNotes: number,
): Client =>
  new Client(base, options, {
    storage: storageNamed(name),
    transport: fetching(base),
    clock: () => Date.now() / 1000,
    running: () => performance.now() / 1000,
    sleep: (seconds) => new Promise((resolve) => setTimeout(resolve, seconds * 1000)),
    values: systemValues,
    coins: systemCoins,
    freshIsClosed,
    notesEarly: true,
    refusal,
    explain: (counter) => (counter === "bundle:CannotReach" ? unreachable(base) : undefined),
    early,
    earlyNotes,
  });
