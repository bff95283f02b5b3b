/** A tab for the browser tests: a client whose clock the test sets, and which can end at any step of what it does. */

import { Client } from "../src/client.ts";
import { type Parts, type Transport } from "../src/device/device.ts";
import { systemCoins, systemValues } from "../src/device/randomness.ts";
import { type Rows, type Storage } from "../src/device/storage.ts";
import { fetching } from "../src/device/transport.ts";
import { BrowserStorage } from "../src/storages/browser.ts";
import { timed } from "./timing.ts";

/** What the frame of a tab is told. */
interface Settings {
  readonly address: string;
  readonly trust: string;
  readonly clock: () => number;
  readonly consent: () => boolean;
  /** Called before and after each step, with its number. Where it throws, the tab is gone. */
  readonly step: (what: string) => void;
  readonly freshIsClosed?: boolean;
  readonly background?: boolean;
  /** For twins: coins of their own. */
  readonly coins?: Parts["coins"];
}

/** A storage each of whose steps is announced. Within a transaction nothing can stop: the browser ends it as a whole. */
const stepping = (storage: Storage, step: (what: string) => void): Storage => ({
  exists: () => storage.exists(),
  transact: async <T>(act: (rows: Rows) => T): Promise<T> => {
    step("before a transaction");
    const result = await storage.transact((rows) => {
      const after = act(rows);
      step("before a commit");
      return after;
    });
    step("after a transaction");
    return result;
  },
  long: (name) => storage.long(name),
  note: (name, text) => storage.note(name, text),
  notes: () => storage.notes(),
  forget: (names) => {
    step("before notes are forgotten");
    storage.forget(names);
    step("after notes are forgotten");
  },
  isOff: () => storage.isOff(),
  switchOff: (off) => storage.switchOff(off),
  alone: (act, within) => storage.alone(act, within),
  close: () => storage.close(),
});

const steppingTransport =
  (transport: Transport, step: (what: string) => void): Transport =>
  async (method, path, headers, body) => {
    step("before " + method);
    const answer = await transport(method, path, headers, body);
    step("after " + method);
    return answer;
  };

export const open = (settings: Settings): Client => {
  const parts: Parts = {
    storage: stepping(new BrowserStorage("hubbub " + settings.address), settings.step),
    transport: steppingTransport(fetching(settings.address), settings.step),
    clock: settings.clock,
    running: () => performance.now() / 1000,
    sleep: (seconds) => new Promise((resolve) => setTimeout(resolve, seconds * 1000)),
    values: systemValues,
    coins: settings.coins ?? systemCoins,
    freshIsClosed: settings.freshIsClosed ?? false,
    notesEarly: true,
    refusal: () => undefined,
  };
  const { trust, consent, background = false } = settings;
  return new Client(settings.address, { trust, consent, background, maxEpsilon: null }, parts);
};

Object.assign(globalThis, { hubbubTab: { open, timed } });
