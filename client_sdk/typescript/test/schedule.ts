/** Random schedules of tabs, crashes, clocks and networks in one page: each tab is a frame of its own, which the page takes
 * away at a random step of what it does, as a crash would. At the end a calm tab reports all that is due. */

import { type Client } from "../src/client.ts";

const DAY = 86_400;
const MOST_TABS = 4;

interface Tab {
  readonly frame: HTMLIFrameElement;
  readonly client: Client;
  /** Steps until it crashes. */
  left: number;
  readonly gone: Promise<false>;
  readonly end: (_: false) => void;
}

/** What a schedule did, and what the device says of it. */
export interface Lived {
  readonly crashes: number;
  readonly steps: number;
  /** Metric, day and outcome of each record. */
  readonly outcomes: readonly [string, number, string][];
  readonly ledger: unknown;
  readonly stats: unknown;
  readonly done: boolean;
}

/** Numbers that follow from a seed (mulberry32): a schedule can be lived again. */
const numbers = (seed: number): ((n: number) => number) => {
  let a = seed >>> 0;
  return (n) => {
    a = (a + 0x6d2b79f5) >>> 0;
    let t = Math.imul(a ^ (a >>> 15), 1 | a);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) % n;
  };
};

const pause = (milliseconds: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, milliseconds));

/** The tabs of one device, all with the clock that it has. */
class Tabs {
  readonly all = new Set<Tab>();
  crashes = 0;
  steps = 0;
  readonly #parts: Record<"address" | "trust", string> & { readonly clock: () => number };

  constructor(address: string, trust: string, clock: () => number) {
    this.#parts = { address, trust, clock };
  }

  /** A tab that crashes after a number of steps. */
  async opened(left: number): Promise<Tab> {
    const frame = document.createElement("iframe");
    frame.src = "/tab";
    const loaded = new Promise((resolve) => frame.addEventListener("load", resolve, { once: true }));
    document.body.append(frame);
    await loaded;
    // eslint-disable-next-line @typescript-eslint/no-explicit-any
    const page = frame.contentWindow as any;
    let end!: (_: false) => void;
    const gone = new Promise<false>((resolve) => (end = resolve));
    const tab = { frame, left, gone, end } as { -readonly [name in keyof Tab]: Tab[name] };
    const step = (): void => {
      this.steps++;
      if (!this.all.has(tab) || tab.left-- > 0) return;
      this.crash(tab);
      throw new Error("this tab is gone");
    };
    this.all.add(tab);
    tab.client = page.hubbubTab.open({ ...this.#parts, consent: () => true, step });
    return tab;
  }

  crash(tab: Tab): void {
    this.crashes++;
    this.all.delete(tab);
    tab.frame.remove();
    tab.end(false);
  }

  clear(): void {
    for (const tab of this.all) tab.frame.remove();
    this.all.clear();
  }
}

/** Whether a tab has sent all that is due. A lock that a tab held when it crashed passes on in a moment. */
const flushed = async ({ client }: Tab): Promise<boolean> => {
  for (let tries = 0; tries < 50; tries++) if (await client.flush({ timeout: 0, now: true })) return true;
  return false;
};

/** A device whose one tab records, sends, and sends again on the next day, but crashes after a number of steps. Then another
 * tab sends what is left. */
export const crashAfter = async (left: number, address: string, trust: string, began: number): Promise<Lived> => {
  let now = began + DAY / 2;
  const tabs = new Tabs(address, trust, () => now);
  const outcomes: [string, number, string][] = [];
  const { client, gone } = await tabs.opened(left);
  for (const day of [0, 1]) {
    if (tabs.all.size) outcomes.push(["theme", Math.floor(now / DAY), client.record("theme", "dark")]);
    if (tabs.all.size) await Promise.race([client.flush({ timeout: 0, now: true }), gone]);
    if (tabs.all.size) outcomes.push(["clicks", Math.floor(now / DAY), client.record("clicks", 1)]);
    if (tabs.all.size) await Promise.race([client.flush({ timeout: 0, now: true }), gone]);
    now = began + DAY * (1.5 + day);
  }
  const { crashes, steps } = tabs;
  tabs.clear();
  now = began + 1.5 * DAY;
  const calm = await tabs.opened(Infinity);
  await flushed(calm);
  now = began + 2.5 * DAY;
  const done = await flushed(calm);
  const [ledger, stats] = [await calm.client.ledger(), calm.client.stats()];
  tabs.clear();
  return { crashes, steps, outcomes, ledger, stats, done };
};

/** A life of so many moves. At its end the clock goes on by a day, and at least to `until`. */
export const live = async (seed: number, address: string, trust: string, began: number, moves: number, until = 0): Promise<Lived> => {
  const draw = numbers(seed);
  let now = began + draw(DAY);
  let latest = now;
  const tabs = new Tabs(address, trust, () => now);
  const outcomes: [string, number, string][] = [];
  const flushes: Promise<unknown>[] = [];
  const some = (): Tab | undefined => [...tabs.all][draw(Math.max(tabs.all.size, 1))];

  for (let move = 0; move < moves; move++) {
    const what = draw(10);
    if (what < 2 || !tabs.all.size) {
      if (tabs.all.size < MOST_TABS) await tabs.opened(draw(60));
    } else if (what < 5) {
      const name = ["theme", "clicks"][draw(2)]!;
      const at = Math.floor(now / DAY);
      const outcome = some()?.client.record(name, name === "theme" ? "dark" : 1);
      if (outcome) outcomes.push([name, at, outcome]);
    } else if (what < 8) {
      const tab = some();
      if (tab) flushes.push(Promise.race([tab.client.flush({ timeout: 0, now: draw(2) === 0 }), pause(400)]));
      if (draw(2)) await flushes.at(-1);
    } else if (what === 8) {
      // One clock in four is set back.
      now += draw(4) ? draw(DAY / 2) : -draw(DAY);
      latest = Math.max(latest, now);
    } else {
      const tab = some();
      if (tab) tabs.crash(tab);
    }
  }
  await Promise.all(flushes);
  tabs.clear();
  const calm = await tabs.opened(Infinity);
  await flushed(calm);
  now = Math.max(latest + DAY, until);
  const done = await flushed(calm);
  const [ledger, stats] = [await calm.client.ledger(), calm.client.stats()];
  const { crashes, steps } = tabs;
  tabs.clear();
  return { crashes, steps, outcomes, ledger, stats, done };
};

Object.assign(globalThis, { hubbubSchedule: { live, crashAfter } });
