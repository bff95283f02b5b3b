/** The cycle: refresh the bundle, pin, settle values, send what is due. A timer runs it, and `flush`; never a record.
 *
 * What a cycle sends of metrics with `missing`, and when it fetches, does not depend on what was recorded. So the lane of
 * the other metrics comes last, and never makes a cycle fetch, pin or wait. */

import { LONGEST_PAUSE_OF_FLUSH } from "../generated/limits.ts";
import { TICK } from "../generated/up_front.ts";
import { type Lane } from "../protocol/metric.ts";
import { endOf, periodOf } from "../protocol/period.ts";
import { isFresh, load, maySend, refresh, refreshAt } from "./bundle_cache.ts";
import { begin, hear } from "./consent.ts";
import { askedOf, backoff, ended, pauseOf } from "./cool_down.ts";
import { type Device, aboutOf, write } from "./device.ts";
import { dropNeverTaken, due, waiting } from "./outbox.ts";
import { pin } from "./pins.ts";
import { absorb, take } from "./record.ts";
import { send } from "./send.ts";
import { settle } from "./settle.ts";
import { tidy } from "./tidy.ts";

/** Let no error out: telemetry must not harm its host. Only the type is counted, since a text may name a value. */
export const guarded = async <T>(d: Device, act: () => Promise<T>): Promise<T | undefined> => {
  try {
    return await act();
  } catch (error) {
    d.count("error:" + (error instanceof Error ? error.name : typeof error));
    return undefined;
  }
};

/** Bring what was recorded, in memory and in notes, into the rows. */
export const takeIn = async (d: Device, more: (rows: Device["rows"]) => void = () => undefined): Promise<void> => {
  const now = d.clock();
  const { since } = aboutOf(d.rows);
  if (since !== undefined && (d.bundle ?? d.shipped)) {
    const queue = d.queue;
    d.queue = [];
    for (const [name, value, at] of queue) {
      let outcome = "invalid";
      try {
        outcome = take(d, name, value, at, now);
      } catch {
        // a value that no metric takes
      }
      d.count("late:" + outcome);
    }
  }
  const names = await write(d, (rows) => {
    const taken = absorb(d, rows);
    more(rows);
    return taken;
  });
  if (names.length) d.storage.forget(names);
};

/** Read what is kept, and by a fresh bundle pin at once. */
export const start = async (d: Device): Promise<void> => {
  if (!(await hear(d))) return;
  await write(d, (rows) => {
    begin(d, rows);
    tidy(d, rows);
  });
  await load(d);
  await pinned(d, isFresh(d));
};

/** Whether no pin is missing. Each cycle pins in one transaction, before anything is drawn. */
const pinned = async (d: Device, fresh: boolean): Promise<boolean> => {
  const { bundle } = d;
  return !!bundle && write(d, (rows) => pin(d, rows, bundle, d.clock(), fresh));
};

const settled = async (d: Device, lane: Lane): Promise<void> => {
  const { bundle } = d;
  if (bundle && d.clock() < bundle.expires)
    await write(d, (rows) => {
      settle(d, rows, bundle, lane, d.clock());
      dropNeverTaken(d, rows, bundle, lane);
    });
};

/** Pin and settle the steady lane, by a bundle that was refreshed or not. Whether no pin is missing. */
const settleSteady = async (d: Device, isAccepted: boolean): Promise<boolean> => {
  // The refresh may have taken long, and another tab may have heard that consent ended.
  if (!(await hear(d))) return false;
  await takeIn(d, (rows) => begin(d, rows));
  if (!isAccepted || !d.bundle || d.clock() >= d.bundle.expires) return false;
  const complete = await pinned(d, isFresh(d));
  await load(d);
  await settled(d, "steady");
  return complete;
};

/** Whether no due report is left in the lane. */
const sent = async (d: Device, lane: Lane, hurry: boolean): Promise<boolean> => {
  if (!maySend(d)) return false;
  const { bundle } = d;
  if ((await send(d, lane, hurry)) && lane === "steady") {
    d.outdated = true;
    if ((await refresh(d, false)) && isFresh(d) && d.bundle) {
      await pinned(d, true);
      await write(d, (rows) => dropNeverTaken(d, rows, d.bundle ?? bundle!, lane));
    }
  }
  return !due(d.rows, lane, d.clock(), hurry).length;
};

const readAndTidy = async (d: Device): Promise<void> => {
  await guarded(d, () => write(d, (rows) => tidy(d, rows)));
  await load(d);
};

const sendSteady = async (d: Device, spread: boolean, hurry: boolean): Promise<boolean> => {
  await readAndTidy(d);
  if (!(await hear(d))) return false;
  const complete = await settleSteady(d, await refresh(d, spread));
  return (await sent(d, "steady", hurry)) && complete;
};

const settleOccasional = async (d: Device): Promise<boolean> => {
  if (!maySend(d) || !(await hear(d))) return false;
  await settled(d, "occasional");
  return true;
};

const sendOccasional = async (d: Device, hurry: boolean): Promise<boolean> =>
  (await settleOccasional(d)) && sent(d, "occasional", hurry);

/** One cycle of the timer. Returns the seconds until the next one. */
export const run = async (d: Device): Promise<number> => {
  if (!(await hear(d))) return TICK;
  if (pauseOf(d, "steady") <= 0) {
    const done = await guarded(d, () => sendSteady(d, true, false));
    await ended(d, "steady", !!done && !d.fetchFailed);
  } else await guarded(d, () => readAndTidy(d).then(() => settleSteady(d, true)));
  await guarded(d, async () => {
    if (Math.max(pauseOf(d, "occasional"), askedOf(d, "occasional")) > 0) await settleOccasional(d);
    else {
      const done = await sendOccasional(d, false);
      if (maySend(d)) await ended(d, "occasional", done);
    }
  });
  return untilNext(d);
};

/** Seconds until a steady report is due, the period ends, the bundle is stale, or it is time to try again. */
const untilNext = (d: Device): number => {
  const now = d.clock();
  const { bundle } = d;
  const pause = pauseOf(d, "steady");
  const moments = [TICK];
  if (pause > 0) moments.push(pause);
  else if (bundle && now < bundle.expires) moments.push(refreshAt(d) - now);
  if (bundle) moments.push(endOf(periodOf(now, bundle.length), bundle.length) - now);
  for (const report of waiting(d.rows, "steady")) if (report.closes > now) moments.push(Math.max(report.send - now, pause));
  const soon = Math.min(...moments);
  return soon > 0 ? soon : 0.5;
};

/** A cycle without the network: values that are due are randomized and wait. */
export const settleAll = async (d: Device): Promise<void> => {
  await readAndTidy(d);
  await settleSteady(d, true);
  await settleOccasional(d);
};

/** Cycles with growing pauses, until no due report is left or the time is over: first the steady lane, so that the
 * occasional one cannot affect it. */
export const flush = async (d: Device, timeout: number, hurry: boolean): Promise<boolean> => {
  const deadline = d.running() + timeout;
  const until = async (lane: Lane): Promise<boolean> => {
    for (let attempt = 0; ; ) {
      let wait = askedOf(d, lane);
      if (wait <= 0) {
        if (!(await hear(d))) return false;
        if (lane === "steady" ? await sendSteady(d, false, hurry) : await sendOccasional(d, hurry)) {
          await ended(d, lane, true);
          return true;
        }
        const pause = backoff(d.coins("retry", "flush " + lane, attempt), attempt++, LONGEST_PAUSE_OF_FLUSH);
        wait = Math.max(askedOf(d, lane), pause);
      }
      if (d.running() + wait >= deadline) return false;
      await d.sleep(wait);
    }
  };
  const steady = await until("steady");
  await settleOccasional(d);
  return (await until("occasional")) && steady;
};
