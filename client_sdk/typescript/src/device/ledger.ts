/** The ledger: what this device has spent, by the name of the metric and the span of time. For each name and period one
 * decision is taken, once and for good. Nothing is refunded, and no codebook and no clock reopens a period. */

import { DECISION_KEPT, LONGEST_GAP } from "../generated/limits.ts";
import { type Fraction, ZERO, add, compare, fractionText, ofText } from "../protocol/fraction.ts";
import { DAY } from "../protocol/period.ts";
import { type Limits } from "./limits.ts";
import { type Rows, rowsOf } from "./storage.ts";

export type Decision = "charged" | "spent" | "out of share" | "refused" | "closed";

/** `epsilon` is a fraction as text, "" where nothing was charged. */
export type Entry = readonly [start: number, end: number, decision: Decision, epsilon: string];

/** All entries of a metric's name in the order of their ends, with what they ever cost and how many were drawn. */
export interface Account {
  readonly spent: string;
  readonly reports: number;
  readonly entries: readonly Entry[];
}

export interface Span {
  readonly start: number;
  readonly end: number;
}

const LEDGER = "ledger ";
const DAYS = "days";

export const accounts = (rows: Rows): [name: string, account: Account][] =>
  rowsOf<Account>(rows, LEDGER).map(([name, account]) => [name.slice(LEDGER.length), account]);

const accountOf = (rows: Rows, name: string): Account => rows.get(LEDGER + name) ?? { spent: "0/1", reports: 0, entries: [] };

const near = (entries: readonly Entry[], { start, end }: Span): Entry[] =>
  entries.filter((entry) => entry[1] > start && entry[0] < end);

const total = (texts: readonly string[]): Fraction => texts.filter(Boolean).map(ofText).reduce(add, ZERO);

/** Up to when all that has begun is closed: since storage that is new or damaged does not know what was spent. */
const closedBefore = (rows: Rows): number => rows.get("about").closed;

/** The decision that holds for a period. */
export const decisionOf = (rows: Rows, name: string, span: Span): Decision | undefined => {
  const found = near(accountOf(rows, name).entries, span);
  for (const strongest of ["spent", "closed", "refused", "out of share"] as const)
    if (found.some((entry) => entry[2] === strongest)) return strongest;
  if (span.start < closedBefore(rows)) return "closed";
  return found.some((entry) => entry[0] === span.start && entry[1] === span.end) ? "charged" : found.length ? "refused" : undefined;
};

export const spentEver = (rows: Rows): Fraction => total(accounts(rows).map(([, { spent }]) => spent));

export const spentOn = (rows: Rows, day: number): Fraction => total([rows.get(DAYS)?.[day] ?? ""]);

const dayOf = (now: number): number => Math.floor(now / DAY);

const hasRoom = (rows: Rows, span: Span, epsilon: Fraction, deviceEpsilon: Fraction, limits: Limits, now: number): boolean => {
  const fits = (spent: Fraction, limit: Fraction | undefined): boolean => !limit || compare(add(spent, epsilon), limit) <= 0;
  const overlapping = accounts(rows).flatMap(([, { entries }]) => near(entries, span));
  return (
    fits(spentEver(rows), limits.lifetime) &&
    !(limits.lifetime && rows.get("about").isUnknown) &&
    fits(spentOn(rows, dayOf(now)), limits.day) &&
    !(limits.day && dayOf(now) <= dayOf(closedBefore(rows))) &&
    !overlapping.some((entry) => entry[2] === "closed") &&
    fits(total(overlapping.map((entry) => entry[3])), deviceEpsilon)
  );
};

const write = (rows: Rows, name: string, account: Account): void => {
  rows.set(LEDGER + name, { ...account, entries: [...account.entries].sort((one, two) => one[1] - two[1]) });
};

/** Take the one decision, unless it was taken before. A charge counts for the period, for today and for ever. */
export const decide = (
  rows: Rows,
  name: string,
  span: Span,
  wanted: boolean,
  epsilon: Fraction,
  deviceEpsilon: Fraction,
  limits: Limits,
  now: number,
): void => {
  if (decisionOf(rows, name, span)) return;
  const charged = wanted && hasRoom(rows, span, epsilon, deviceEpsilon, limits, now);
  const account = accountOf(rows, name);
  const decision = charged ? "charged" : wanted ? "refused" : "out of share";
  const entries = [...account.entries, [span.start, span.end, decision, charged ? fractionText(epsilon) : ""] as const];
  if (charged) {
    const today = dayOf(now);
    rows.set(DAYS, { ...rows.get(DAYS), [today]: fractionText(add(spentOn(rows, today), epsilon)) });
  }
  write(rows, name, { ...account, spent: charged ? fractionText(add(ofText(account.spent), epsilon)) : account.spent, entries });
};

/** Use up a charge. True: the one randomization may be made now. */
export const spend = (rows: Rows, name: string, span: Span): boolean => {
  if (decisionOf(rows, name, span) !== "charged") return false;
  const account = accountOf(rows, name);
  const entries = account.entries.map((entry) =>
    entry[0] === span.start && entry[1] === span.end ? ([entry[0], entry[1], "spent", entry[3]] as const) : entry,
  );
  write(rows, name, { ...account, reports: account.reports + 1, entries });
  return true;
};

const isOld = (entry: Entry, now: number): boolean => entry[1] <= now - DECISION_KEPT;

const WORTH_MERGING = 100;

/** Whether there is much that `compact` may merge. */
export const isLong = (rows: Rows, now: number): boolean =>
  accounts(rows).some(([, { entries }]) => entries.filter((entry) => isOld(entry, now)).length > WORTH_MERGING);

/** Merge old entries into closed spans. A span never covers a long time without decisions. */
export const compact = (rows: Rows, now: number): void => {
  for (const [name, account] of accounts(rows)) {
    const merged: Entry[] = [];
    for (const entry of account.entries.filter((one) => isOld(one, now)).sort((one, two) => one[0] - two[0])) {
      const last = merged.at(-1);
      if (last && entry[0] - last[1] < LONGEST_GAP) merged[merged.length - 1] = [last[0], Math.max(last[1], entry[1]), "closed", ""];
      else merged.push([entry[0], entry[1], "closed", ""]);
    }
    write(rows, name, { ...account, entries: [...merged, ...account.entries.filter((one) => !isOld(one, now))] });
  }
};
