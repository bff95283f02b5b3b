/** Tidy: delete what is over, never after only one look at the clock. A wrong clock must not cost values. */

import { PIN_KEPT, SECOND_LOOK } from "../generated/limits.ts";
import { DAY } from "../protocol/period.ts";
import { type Device, type Pin, type Recorded, type Waiting, aboutOf, note } from "./device.ts";
import { compact, isLong } from "./ledger.ts";
import { REPORT } from "./outbox.ts";
import { type Rows, rowsOf } from "./storage.ts";

/** A look at both clocks, and the run in which the second one is good. */
type Moment = readonly [now: number, running: number, run: string];

/** First looks of runs that found the same: by the wall clock those that count, and those that are remembered. */
interface Look {
  readonly counted: readonly number[];
  readonly runs: readonly Moment[];
}

const RUNS = 3;
const REMEMBERED = 4;
const IMPLAUSIBLE = 60 * DAY;

/** What is known after another look; and if it counts, the time that is confirmed to be over. */
const look = (before: Look | undefined, moment: Moment): [Look, number?] => {
  const [now, running, run] = moment;
  const first: Look = { counted: [now], runs: [moment] };
  if (!before) return [first];
  const last = before.counted.at(-1)!;
  const ours = before.runs.find((one) => one[2] === run && one[1] <= running);
  if (now < (ours ? ours[0] : last)) return [first];
  if (ours) return running - ours[1] >= SECOND_LOOK ? [first, ours[0]] : [before];
  const counted = now >= last + SECOND_LOOK ? [...before.counted, now] : before.counted;
  if (counted.length >= RUNS) return [first, counted[0]!];
  return [{ counted, runs: [...before.runs.filter((one) => one[2] !== run), moment].slice(-REMEMBERED) }];
};

type Check = readonly [finds: (rows: Rows, now: number) => boolean, deletes: (d: Device, rows: Rows, over: number) => void];

const late = (rows: Rows, prefix: string, now: number): string[] =>
  rowsOf<Recorded | Waiting>(rows, prefix).flatMap(([name, { closes }]) => (closes <= now ? [name] : []));

const early = (rows: Rows, now: number): string[] =>
  rowsOf<Recorded>(rows, "state ").flatMap(([name, { at }]) => (at > now + DAY ? [name] : []));

const oldPins = (rows: Rows, now: number): [string, Pin][] =>
  rowsOf<Pin>(rows, "pin ").filter(([, { closes }]) => closes <= now - PIN_KEPT);

const drop = (d: Device, rows: Rows, names: readonly string[], why: string): void => {
  for (const name of names) rows.delete(name);
  if (names.length) d.count(why, names.length);
};

const CHECKS: Record<string, Check> = {
  late: [
    (rows, now) => late(rows, "state ", now).length + late(rows, REPORT, now).length > 0,
    (d, rows, over) => {
      drop(d, rows, late(rows, "state ", over), "lost:period-closed");
      drop(d, rows, late(rows, REPORT, over), "dropped:period-closed");
    },
  ],
  old: [
    (rows, now) => oldPins(rows, now).length > 0 || isLong(rows, now),
    (_, rows, over) => {
      const gone = oldPins(rows, over);
      for (const [name] of gone) rows.delete(name);
      const needed = new Set(rowsOf<Pin>(rows, "pin ").map(([, { page }]) => page));
      for (const [, { page }] of gone) if (!needed.has(page)) rows.set("~page " + page, undefined);
      if (isLong(rows, over)) compact(rows, over);
    },
  ],
  early: [
    (rows, now) => early(rows, now).length > 0,
    (d, rows) => drop(d, rows, early(rows, d.clock()), "lost:clock"),
  ],
  // What a clock wrote down that was far ahead.
  ahead: [
    (rows, now) => (aboutOf(rows).since ?? 0) > now || (aboutOf(rows).closed ?? 0) > now + IMPLAUSIBLE,
    (d, rows, seen) => {
      const { since, closed } = aboutOf(rows);
      if (since! > d.clock()) note(rows, { since: seen });
      if (closed! > d.clock() + IMPLAUSIBLE) note(rows, { closed: seen });
    },
  ],
};

export const tidy = (d: Device, rows: Rows): void => {
  const moment: Moment = [d.clock(), d.running(), d.run];
  for (const [name, [finds, deletes]] of Object.entries(CHECKS)) {
    const before: Look | undefined = rows.get("look " + name);
    if (!finds(rows, moment[0])) {
      rows.delete("look " + name);
      continue;
    }
    const [after, over] = look(before, moment);
    if (after !== before) rows.set("look " + name, after);
    if (over !== undefined) deletes(d, rows, over);
  }
};
