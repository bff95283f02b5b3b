/** What people may see: the account of what was spent, and a preview of what is collected and will be sent. */

import { type Outcome } from "../generated/outcomes.ts";
import { newestPage } from "../protocol/bundle.ts";
import { type Members } from "../protocol/canonical.ts";
import { type Page } from "../protocol/codebook.ts";
import { type Fraction } from "../protocol/fraction.ts";
import { isAtOnce } from "../protocol/metric.ts";
import { DAY } from "../protocol/period.ts";
import { reducedValue } from "../protocol/reduce.ts";
import { type Value } from "../protocol/values.ts";
import { isWithdrawnElsewhere } from "./consent.ts";
import { type Device, type Recorded, type Waiting, aboutOf, pinName } from "./device.ts";
import { type Decision, accounts, spentEver, spentOn } from "./ledger.ts";
import { refusalOf } from "./limits.ts";
import { REPORT } from "./outbox.ts";
import { rowsOf } from "./storage.ts";
import { ofText } from "../protocol/fraction.ts";

/** The decision for a metric and a span of time, in Unix seconds. */
export interface LedgerEntry {
  readonly start: number;
  readonly end: number;
  readonly decision: Decision;
  /** The charge: 0 unless `decision` is `charged` or `spent`. */
  readonly epsilon: number;
}

export interface Ledger {
  /** Ever, over all metrics, since this storage began. */
  readonly spent: number;
  readonly spentToday: number;
  readonly maxEpsilon: number | null;
  readonly lifetimeEpsilon: number | null;
  /** When this storage began; null if there is none. More may have been spent before it, if it was cleared. */
  readonly since: number | null;
  /** False: more was spent, as what was kept is damaged. */
  readonly complete: boolean;
  /** Periods that began before this moment, and its UTC day, are not reported. Null if there is no such moment. */
  readonly closedBefore: number | null;
  /** What the app chose for storage that is new, as this one was at `since`. With `report`, a period may have been reported
   * twice, if this storage was cleared in it. Null where nobody was asked: in Node, as in Python. */
  readonly freshStorage: "wait" | "report" | null;
  readonly metrics: readonly {
    readonly name: string;
    readonly spent: number;
    readonly reports: number;
    /** The last ones, newest first. */
    readonly periods: readonly LedgerEntry[];
  }[];
}

const numberOf = ([n, d]: Fraction): number => Number(n) / Number(d);
const LAST_PERIODS = 10;

/** The choice by which this storage began; before it began, that of this client. */
const freshStorageOf = (d: Device): Ledger["freshStorage"] => {
  const { born, openAtBirth } = aboutOf(d.rows);
  if (d.freshIsClosed === undefined) return null;
  return (born === undefined ? !d.freshIsClosed : openAtBirth) ? "report" : "wait";
};

export const ledgerOf = (d: Device): Ledger => {
  const { born, closed, isUnknown } = aboutOf(d.rows);
  const limit = (given: Fraction | undefined): number | null => (given ? numberOf(given) : null);
  const metrics = accounts(d.rows).map(([name, { spent, reports, entries }]) => ({
    name,
    spent: numberOf(ofText(spent)),
    reports,
    periods: entries
      .slice(-LAST_PERIODS)
      .reverse()
      .map(([start, end, decision, epsilon]) => ({ start, end, decision, epsilon: epsilon ? numberOf(ofText(epsilon)) : 0 })),
  }));
  return {
    spent: numberOf(spentEver(d.rows)),
    spentToday: numberOf(spentOn(d.rows, Math.floor(d.clock() / DAY))),
    maxEpsilon: limit(d.limits.day),
    lifetimeEpsilon: limit(d.limits.lifetime),
    since: born ?? null,
    complete: !isUnknown,
    closedBefore: closed || null,
    freshStorage: freshStorageOf(d),
    metrics: metrics.sort((one, two) => (one.name < two.name ? -1 : 1)),
  };
};

/** Exactly what will be sent, and what is collected. It shows the person's own values, so it is for their eyes only. */
export interface Preview {
  /** Whether there is consent. */
  readonly takingPart: boolean;
  /** Randomized reports that wait to be sent. */
  readonly queued: readonly {
    readonly metric: string;
    readonly start: number;
    /** The randomized value as it will be sent, in hexadecimal digits. */
    readonly payload: string;
    /** The earliest time of sending, in Unix seconds. */
    readonly sendsAt: number;
    readonly isSealed: boolean;
    /** The metric in its codebook, by which `hubbub-client/words` reads the payload; null if it is gone. */
    readonly question: Members | null;
  }[];
  /** True values that are still only on this device. */
  readonly pending: readonly {
    readonly metric: string;
    readonly start: number;
    readonly reduce: string;
    /** How many values were recorded. */
    readonly recorded: number;
    /** The reduced value so far. */
    readonly value: Value;
    /** The earliest time of randomization, in Unix seconds. */
    readonly randomizedAt: number;
  }[];
  /** The metrics of the newest codebook, as it has them. */
  readonly metrics: readonly Members[];
  /** Seconds of a period of that codebook. */
  readonly period: number | null;
  /** Why this device does not use the codebook: `short_period`, `over_budget` or `not_pinned`. Null if it does. */
  readonly refusal: Outcome | null;
  /** Periods that began before this moment are not reported, as this storage was new then. */
  readonly closedBefore: number | null;
  /** As in the ledger. */
  readonly freshStorage: Ledger["freshStorage"];
}

const newest = (d: Device): Page | undefined => (d.bundle ? newestPage(d.bundle) : d.shipped);

export const previewOf = (d: Device): Preview => {
  const page = newest(d);
  const pageOfSpan = (span: { start: number; end: number }): Page | undefined =>
    d.pages.get(d.rows.get(pinName(span))?.page) ?? page;
  const queued = rowsOf<Waiting>(d.rows, REPORT).map(([, report]) => ({
    metric: report.metric,
    start: report.start,
    payload: report.payload,
    sendsAt: report.send,
    isSealed: !!report.sealed,
    question: pageOfSpan(report)?.metrics.get(report.metric)?.document ?? null,
  }));
  const pending = rowsOf<Recorded>(d.rows, "state ").map(([, state]) => {
    const metric = pageOfSpan(state)?.metrics.get(state.metric);
    return {
      metric: state.metric,
      start: state.start,
      reduce: state.reduce,
      recorded: state.n,
      value: reducedValue(state.reduce, state),
      randomizedAt: metric && isAtOnce(metric) ? state.at : state.end,
    };
  });
  return {
    takingPart: d.agrees() && !isWithdrawnElsewhere(d),
    queued: queued.sort((one, two) => one.sendsAt - two.sendsAt),
    pending: pending.sort((one, two) => one.start - two.start),
    metrics: [...(page?.metrics.values() ?? [])].map((metric) => metric.document),
    period: page?.length ?? null,
    refusal: (page && refusalOf(page, d.limits)) ?? null,
    closedBefore: aboutOf(d.rows).closed || null,
    freshStorage: freshStorageOf(d),
  };
};
