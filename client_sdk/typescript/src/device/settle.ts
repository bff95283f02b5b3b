/** Settle: what a period holds becomes reports, once per metric and period, by the period's pin. */

import { NONCE_BYTES } from "../generated/wire.ts";
import { PERIODS_TO_CATCH_UP } from "../generated/limits.ts";
import { type Bundle, isOnIn } from "../protocol/bundle.ts";
import { hex } from "../protocol/bytes.ts";
import { type Json } from "../protocol/canonical.ts";
import { below } from "../protocol/draws.ts";
import { type Place } from "../protocol/mechanisms/base.ts";
import { type Lane, type Metric, isAtOnce, laneOf } from "../protocol/metric.ts";
import { periodOf } from "../protocol/period.ts";
import { reducedValue } from "../protocol/reduce.ts";
import { Refused } from "../protocol/refused.ts";
import { inputOf, randomize } from "../protocol/values.ts";
import { type Device, type Pin, type Recorded, type Waiting, aboutOf, isUsable, pinName } from "./device.ts";
import { type Decision, decisionOf, spend } from "./ledger.ts";
import { REPORT, shrink } from "./outbox.ts";
import { stateName } from "./record.ts";
import { type Rows, rowsOf } from "./storage.ts";

const LOST: Record<Decision, string | undefined> = {
  charged: undefined,
  "out of share": "not-in-share",
  refused: "over-budget",
  closed: "over-budget",
  spent: "over-budget",
};

/** Why a value is lost by its decision; undefined if it is not. */
const lostBy = (rows: Rows, metric: string, pin: Pin): string | undefined => {
  const decision = decisionOf(rows, metric, pin);
  return decision ? LOST[decision] : "metric-disabled";
};

/** The input of what was recorded, else of `missing`, else none; and why what was recorded is not it. */
const inputFor = (metric: Metric, state: Recorded | undefined): [input?: bigint | Place | undefined, lost?: string] => {
  const missing = metric.missing === null ? undefined : inputOf(metric, metric.missing);
  if (!state) return [missing];
  try {
    if (state.reduce === metric.reduce) return [inputOf(metric, reducedValue(state.reduce, state) as Json)];
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
  }
  return [missing, "invalid"];
};

/** Randomize one metric of a period. Returns why what was recorded is not reported. Only the payload depends on it. */
const settleOne = (d: Device, rows: Rows, bundle: Bundle, pin: Pin, metric: Metric, state: Recorded | undefined, now: number): string | undefined => {
  const page = d.pages.get(pin.page);
  if (!isUsable(d, page)) return "codebook-refused";
  if (isOnIn(bundle, pin.index, metric.id) === false) return "metric-disabled";
  if (metric.missing !== null && aboutOf(rows).since! >= pin.end) return "period-closed";
  const [input, lost] = inputFor(metric, state);
  if (input === undefined || !spend(rows, metric.name, pin)) return lost;
  const at = isAtOnce(metric) && state ? Math.min(Math.max(state.at, pin.start), now) : pin.end;
  const delay = below(d.coins("delay", metric.name, pin.index), BigInt(page.longestDelay + 1));
  const payload = hex(randomize(metric, input, d.values));
  const nonce = hex(d.coins("nonce", metric.name, pin.index)(NONCE_BYTES));
  const report: Waiting = {
    lane: laneOf(metric),
    metric: metric.name,
    id: metric.id,
    period: pin.index,
    start: pin.start,
    end: pin.end,
    nonce,
    payload,
    closes: pin.closes,
    due: at,
    send: at + Number(delay) / 1000,
  };
  rows.set(REPORT + nonce, report);
  d.count("randomized");
  return lost;
};

/** Why values that have no report are lost, in the occasional lane. */
const unreportable = (d: Device, rows: Rows, bundle: Bundle, state: Recorded, now: number): string | undefined => {
  const pin: Pin | undefined = rows.get(pinName(state));
  if (pin) {
    const page = d.pages.get(pin.page);
    return page === undefined ? undefined : !page?.metrics.has(state.metric) ? "unknown-metric" : lostBy(rows, state.metric, pin);
  }
  const isOther = state.end - state.start !== bundle.length;
  return isOther || state.index < periodOf(now, bundle.length) - PERIODS_TO_CATCH_UP ? "period-closed" : undefined;
};

/** Settle a lane, inside a transaction that is on stable storage before anything is sent. */
export const settle = (d: Device, rows: Rows, bundle: Bundle, lane: Lane, now: number): void => {
  if (aboutOf(rows).since === undefined) return;
  const pins = rowsOf<Pin>(rows, "pin ").map(([, pin]) => pin);
  for (const pin of pins.sort((one, two) => two.start - one.start)) {
    if (now < pin.start || now >= pin.closes || pin.end - pin.start !== bundle.length) continue;
    for (const metric of d.pages.get(pin.page)?.metrics.values() ?? []) {
      if (laneOf(metric) !== lane) continue;
      const where = stateName(metric.name, pin);
      const state: Recorded | undefined = rows.get(where);
      let lost = lostBy(rows, metric.name, pin);
      if (!lost && now < pin.end && !isAtOnce(metric)) continue;
      if (!state && metric.missing === null) continue;
      lost ??= settleOne(d, rows, bundle, pin, metric, state, now);
      if (!state) continue;
      rows.delete(where);
      if (lost) d.count("lost:" + lost);
    }
  }
  if (lane === "occasional")
    for (const [name, state] of rowsOf<Recorded>(rows, "state ")) {
      const lost = unreportable(d, rows, bundle, state, now);
      if (!lost) continue;
      rows.delete(name);
      d.count("lost:" + lost);
    }
  shrink(d, rows, lane);
};
