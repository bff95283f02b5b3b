/** The outbox: randomized reports that no shuffler has acknowledged yet. Each lane has limits and requests of its own, so
 * that nothing in the occasional one shows in the steady one. */

import { MOST_BYTES_IN_OUTBOX, MOST_REPORTS_IN_OUTBOX } from "../generated/limits.ts";
import { type Bundle, isOnIn, isRevoked } from "../protocol/bundle.ts";
import { type Lane } from "../protocol/metric.ts";
import { type Device, type Pin, type Waiting, pinName } from "./device.ts";
import { type Rows, rowsOf } from "./storage.ts";

export const REPORT = "report ";

/** The reports of a lane in the order of their nonces. */
export const waiting = (rows: Rows, lane: Lane): Waiting[] =>
  rowsOf<Waiting>(rows, REPORT)
    .map(([, report]) => report)
    .filter((report) => report.lane === lane)
    .sort((one, two) => (one.nonce < two.nonce ? -1 : 1));

/** Those that may be sent now. With `hurry`, also those whose random delay is not over. */
export const due = (rows: Rows, lane: Lane, now: number, hurry: boolean): Waiting[] =>
  waiting(rows, lane).filter((report) => (hurry ? report.due : report.send) <= now && now < report.closes);

export const pinOf = (rows: Rows, report: Waiting): Pin | undefined => rows.get(pinName(report));

const sizeOf = ({ payload }: Waiting): number => payload.length + 200;

/** Drop the oldest reports beyond the limits of a lane. */
export const shrink = (d: Device, rows: Rows, lane: Lane): void => {
  const kept = waiting(rows, lane).sort((one, two) => one.closes - two.closes || one.send - two.send);
  let bytes = kept.reduce((sum, report) => sum + sizeOf(report), 0);
  for (let count = kept.length; count > MOST_REPORTS_IN_OUTBOX || bytes > MOST_BYTES_IN_OUTBOX; count--) {
    const oldest = kept.shift()!;
    bytes -= sizeOf(oldest);
    rows.delete(REPORT + oldest.nonce);
    d.count("dropped:outbox-full");
  }
};

/** Drop the reports of a lane that no shuffler would take any more. */
export const dropNeverTaken = (d: Device, rows: Rows, bundle: Bundle, lane: Lane): void => {
  for (const report of waiting(rows, lane)) {
    const on = isOnIn(bundle, report.period, report.id);
    const key = report.key ?? pinOf(rows, report)?.key;
    const why =
      on === undefined
        ? "unknown-metric"
        : !on
          ? "metric-disabled"
          : key !== undefined && isRevoked(bundle, report.period, key)
            ? "revoked-key"
            : undefined;
    if (!why) continue;
    rows.delete(REPORT + report.nonce);
    d.count("dropped:" + why);
  }
};
