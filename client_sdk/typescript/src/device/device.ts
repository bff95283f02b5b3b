/** The device: what all its parts share, and its rows. All tabs and processes that share a storage are one device. */

import { type Answer } from "../protocol/answers.ts";
import { type Bundle } from "../protocol/bundle.ts";
import { type Bytes } from "../protocol/bytes.ts";
import { type Page } from "../protocol/codebook.ts";
import { type Take } from "../protocol/draws.ts";
import { type Lane } from "../protocol/metric.ts";
import { type Reduced } from "../protocol/reduce.ts";
import { type Limits, refusalOf } from "./limits.ts";
import { DAMAGED, type Rows, type Storage } from "./storage.ts";

export type Headers = Record<string, string>;

/** Sends a request to a path of the shuffler. Undefined: no answer in time. */
export type Transport = (method: string, path: string, headers: Headers, body?: Bytes) => Promise<Answer | undefined>;

/** A purpose of coins that decide whether and when something is sent. Each has a stream of its own. */
export type Purpose = "share" | "delay" | "nonce" | "refresh" | "retry";

/** A value that waits in memory, with its time. */
export type Early = [name: string, value: unknown, at: number];

/** What a device runs on. Times are in seconds. */
export interface Parts {
  readonly storage: Storage;
  readonly transport: Transport;
  readonly clock: () => number;
  /** A clock that nobody sets. */
  readonly running: () => number;
  readonly sleep: (seconds: number) => Promise<void>;
  /** Randomness for values; and for coins, by purpose, subject and number. */
  readonly values: Take;
  readonly coins: (purpose: Purpose, subject: string, number: number) => Take;
  /** Whether new storage closes what had begun, since it cannot know what was spent. Undefined: no, and nobody was asked. */
  readonly freshIsClosed?: boolean;
  /** Whether values that wait for a codebook are kept in notes, since a page may end at any time. */
  readonly notesEarly?: boolean;
  /** Why the person's own switches say no, whatever the app says; undefined if they do not. */
  readonly refusal: () => string | undefined;
  /** What a counter means, for a developer. */
  readonly explain?: (counter: string) => string | undefined;
  /** What was recorded before this began: values that wait in memory, and the number of those in notes. */
  readonly early?: readonly Early[];
  readonly earlyNotes?: number;
}

/** The row of facts. */
export interface About {
  /** When this storage began. */
  readonly born: number;
  /** Periods that began before this are not reported. */
  readonly closed: number;
  /** Whether it is not known what was ever spent, as what was kept is damaged. */
  readonly isUnknown?: boolean;
  /** Since when there is consent. */
  readonly since?: number;
  /** How often consent has ended. What was recorded before is not kept. */
  readonly ended: number;
  /** How often it has ended because somebody was told no, and not by the switch. */
  readonly withdrawn?: number;
  /** Whether this storage reported from its first moment on, as the app had chosen. */
  readonly openAtBirth?: boolean;
  readonly sequence?: number;
  readonly digest?: string;
  readonly signer?: string;
  readonly fetched?: number;
  /** Milliseconds. */
  readonly spread?: number;
}

export interface Pin {
  readonly index: number;
  readonly start: number;
  readonly end: number;
  readonly closes: number;
  readonly page: string;
  readonly key?: number;
  readonly publicKey?: string;
}

/** What was recorded of a metric in a period. */
export interface Recorded extends Reduced {
  readonly metric: string;
  readonly index: number;
  readonly start: number;
  readonly end: number;
  readonly closes: number;
  readonly reduce: string;
  /** When the first value was recorded. */
  readonly at: number;
}

/** A report that waits: randomized, and once sealed, as it is sent. */
export interface Waiting {
  readonly lane: Lane;
  readonly metric: string;
  readonly id: string;
  readonly period: number;
  readonly start: number;
  readonly end: number;
  readonly nonce: string;
  readonly payload: string;
  readonly closes: number;
  readonly due: number;
  readonly send: number;
  readonly key?: number;
  readonly sealed?: string;
}

export interface Device extends Parts {
  readonly limits: Limits;
  readonly anchors: readonly string[] | undefined;
  /** Whether mistakes of the app raise an error. */
  readonly strict: boolean;
  /** Whether there is consent now. */
  readonly agrees: () => boolean;
  readonly count: (name: string, by?: number) => void;
  /** The rows as they were last read. */
  rows: Rows;
  bundle?: Bundle | undefined;
  /** The codebook that came with the app, until there is a bundle. */
  shipped?: Page | undefined;
  /** Codebooks of pins by id; null for one that this device cannot read. */
  readonly pages: Map<string, Page | null>;
  /** Whether the last bundle that was served was refused. */
  refused: boolean;
  /** Whether a shuffler refused a key of the bundle: a newer one may say what became of it. */
  outdated: boolean;
  fetchFailed: boolean;
  /** Whether the last transaction failed: then nothing may be recorded. */
  cannotKeep: boolean;
  /** Withdrawals that were known when this client was first told yes; undefined: it was told no since. */
  heard: number | undefined;
  /** Values that wait for a codebook: in memory, and the number of those in notes. */
  queue: Early[];
  waitingNotes: number;
  readonly run: string;
}

export const nameOfSpan = (start: number, end: number): string => `${start}-${end}`;
export const pinName = ({ start, end }: { start: number; end: number }): string => "pin " + nameOfSpan(start, end);

export const aboutOf = (rows: Rows): Partial<About> => rows.get("about") ?? {};

export const note = (rows: Rows, facts: Partial<About>): void => {
  rows.set("about", { ...rows.get("about"), ...facts });
};

/** One transaction. Storage that is new, or was cleared while it was open, begins with its birth. */
export const write = async <T>(d: Device, act: (rows: Rows) => T): Promise<T> => {
  let after = d.rows;
  const transaction = d.storage.transact((rows) => {
    const now = d.clock();
    const isDamaged = rows.delete(DAMAGED);
    if (isDamaged || !rows.has("about")) {
      const closed = isDamaged || d.freshIsClosed ? now : 0;
      const openAtBirth = !isDamaged && d.freshIsClosed === false;
      note(rows, {
        born: now,
        ended: 0,
        ...rows.get("about"),
        closed,
        ...(isDamaged ? { isUnknown: true } : {}),
        ...(openAtBirth ? { openAtBirth } : {}),
      });
    }
    after = rows;
    return act(rows);
  });
  transaction.then(
    () => (d.cannotKeep = false),
    () => (d.cannotKeep = true),
  );
  const result = await transaction;
  d.rows = after;
  return result;
};

/** Whether this device can read a codebook, and its limits allow it. */
export const isUsable = (d: Device, page: Page | null | undefined): page is Page => !!page && !refusalOf(page, d.limits);
