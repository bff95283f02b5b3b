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

export const live = async (seed: number, address: string, trust: string, began: number, moves: number): Promise<Lived> => {
  const draw = numbers(seed);
  let now = began + draw(DAY);
  let latest = now;
  let crashes = 0;
  let steps = 0;
  const tabs = new Set<Tab>();
  const outcomes: [string, number, string][] = [];
  const flushes: Promise<unknown>[] = [];

  const opened = async (left: number): Promise<Tab> => {
    const frame = document.createElement("iframe");
    frame.src = "/tab";
    const loaded = new Promise((resolve) => frame.addEventListener("load", resolve, { once: true }));
    document.body.append(frame);
    await loaded;
    // eslint-disable-next-line @typescript-eslint/no-explicit-any
    const page = frame.contentWindow as any;
    const tab = { frame, left } as { -readonly [name in keyof Tab]: Tab[name] };
    const step = (): void => {
      steps++;
      if (!tabs.has(tab) || tab.left-- > 0) return;
      crashes++;
      tabs.delete(tab);
      frame.remove();
      throw new Error("this tab is gone");
    };
    tabs.add(tab);
    tab.client = page.hubbubTab.open({ address, trust, clock: () => now, consent: () => true, step });
    return tab;
  };
  const some = (): Tab | undefined => [...tabs][draw(Math.max(tabs.size, 1))];
  const pause = (milliseconds: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, milliseconds));

  for (let move = 0; move < moves; move++) {
    const what = draw(10);
    if (what < 2 || !tabs.size) {
      if (tabs.size < MOST_TABS) await opened(draw(60));
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
      if (tab) {
        tabs.delete(tab);
        tab.frame.remove();
        crashes++;
      }
    }
  }
  await Promise.all(flushes);
  for (const tab of tabs) tab.frame.remove();
  tabs.clear();
  const calm = await opened(Infinity);
  // A lock that a tab held when it crashed passes on in a moment.
  const flushed = async (): Promise<boolean> => {
    for (let tries = 0; tries < 50; tries++) if (await calm.client.flush({ timeout: 0, now: true })) return true;
    return false;
  };
  await flushed();
  now = latest + DAY;
  const done = await flushed();
  const ledger = await calm.client.ledger();
  const stats = calm.client.stats();
  calm.frame.remove();
  return { crashes, steps, outcomes, ledger, stats, done };
};

Object.assign(globalThis, { hubbubSchedule: { live } });
