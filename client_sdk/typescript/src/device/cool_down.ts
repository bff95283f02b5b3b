/** Cool-down: how long a lane leaves the service alone, because it asked for that or because cycles fail. It is kept, so
 * that a page that is opened for a second does not try a dead service each time. */

import { FIRST_PAUSE, LONGEST_PAUSE, LONGEST_RETRY_AFTER } from "../generated/limits.ts";
import { type Take, below } from "../protocol/draws.ts";
import { type Lane } from "../protocol/metric.ts";
import { type Device, write } from "./device.ts";
import { type Rows } from "./storage.ts";

/** Moments by the wall clock, and failures in a row. */
interface Waits {
  readonly asked: number;
  readonly rest: number;
  readonly failures: number;
}

const NONE: Waits = { asked: 0, rest: 0, failures: 0 };

const waitsOf = (rows: Rows, lane: Lane): Waits => rows.get("waits " + lane) ?? NONE;

const change = (d: Device, lane: Lane, facts: Partial<Waits>): Promise<void> =>
  write(d, (rows) => {
    rows.set("waits " + lane, { ...waitsOf(rows, lane), ...facts });
  });

/** Seconds until a moment. One that is too far ahead was written by a wrong clock. */
const left = (moment: number, now: number, longest: number): number => (moment - now <= longest ? moment - now : 0);

/** Seconds uniformly below a limit that doubles with each failure. */
export const backoff = (take: Take, failures: number, longest: number): number =>
  (Math.min(FIRST_PAUSE * 2 ** Math.min(failures, 30), longest) * Number(below(take, 1001n))) / 1000;

/** Seconds of the pause that the service asked for. One that was asked of the steady lane holds for both. */
export const askedOf = (d: Device, lane: Lane): number =>
  Math.max(...(["steady", lane] as const).map((one) => left(waitsOf(d.rows, one).asked, d.clock(), LONGEST_RETRY_AFTER)));

/** Seconds that the timer leaves this lane alone. */
export const pauseOf = (d: Device, lane: Lane): number =>
  Math.max(
    left(waitsOf(d.rows, lane).asked, d.clock(), LONGEST_RETRY_AFTER),
    left(waitsOf(d.rows, lane).rest, d.clock(), LONGEST_PAUSE),
  );

export const asked = async (d: Device, lane: Lane, seconds: number): Promise<void> => {
  const until = d.clock() + seconds;
  if (seconds > 0) await change(d, lane, { asked: Math.max(until, askedOf(d, lane) > 0 ? waitsOf(d.rows, lane).asked : 0) });
};

/** A cycle of the timer failed, or did not. */
export const ended = async (d: Device, lane: Lane, done: boolean): Promise<void> => {
  const { failures } = waitsOf(d.rows, lane);
  if (done && failures) await change(d, lane, { rest: 0, failures: 0 });
  const pause = backoff(d.coins("retry", lane, failures), failures, LONGEST_PAUSE);
  if (!done) await change(d, lane, { rest: d.clock() + pause, failures: failures + 1 });
};
