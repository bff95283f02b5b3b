/** Pins: the codebook, key and decisions that a device fixes at its first look at a period. A cycle makes them, never a
 * record, and whether or not anything was recorded. */

import { PERIODS_TO_CATCH_UP } from "../generated/limits.ts";
import { type Bundle, isOn, keyOf, pageOf } from "../protocol/bundle.ts";
import { base64url } from "../protocol/bytes.ts";
import { type Page } from "../protocol/codebook.ts";
import { W, coin } from "../protocol/draws.ts";
import { endOf, periodOf, startOf, utcDate } from "../protocol/period.ts";
import { type Device, type Pin, aboutOf, isUsable, pinName } from "./device.ts";
import { decide } from "./ledger.ts";
import { type Rows } from "./storage.ts";

const open = (bundle: Bundle, now: number, since: number): [index: number, page: Page][] => {
  const longest = Math.max(0, ...bundle.entries.map(({ page }) => page?.grace ?? 0));
  const newest = periodOf(now, bundle.length);
  const found: [number, Page][] = [];
  for (let index = newest; index >= Math.max(newest - PERIODS_TO_CATCH_UP, 0); index--) {
    const end = endOf(index, bundle.length);
    if (now >= end + longest) break;
    const page = pageOf(bundle, index);
    if (page && now < end + page.grace && since < end) found.push([index, page]);
  }
  return found;
};

/** Pin the periods that are open. Without a fresh bundle, only say whether a pin is missing. */
export const pin = (d: Device, rows: Rows, bundle: Bundle, now: number, fresh: boolean): boolean => {
  const { since } = aboutOf(rows);
  if (since === undefined || now >= bundle.expires) return false;
  let complete = true;
  for (const [index, page] of open(bundle, now, Math.min(since, now))) {
    const span = { start: startOf(index, bundle.length), end: endOf(index, bundle.length) };
    const key = keyOf(bundle, index);
    const sealing = key && { key: key.id, publicKey: base64url(key.publicKey) };
    const old: Pin | undefined = rows.get(pinName(span));
    if (old ? old.key !== undefined || !sealing : !isUsable(d, page)) continue;
    if (!fresh) complete = false;
    else if (old) rows.set(pinName(span), { ...old, ...sealing });
    else {
      rows.set(pinName(span), { index, ...span, closes: span.end + page.grace, page: page.id, ...sealing });
      rows.set("~page " + page.id, JSON.stringify(page.document));
      d.pages.set(page.id, page);
      for (const metric of page.metrics.values()) {
        if (!isOn(bundle, metric) || (metric.expires !== null && metric.expires <= utcDate(span.start))) continue;
        const wanted = coin(d.coins("share", metric.name, index), metric.shareThreshold, W);
        decide(rows, metric.name, span, wanted, metric.epsilon, page.deviceEpsilon, d.limits, now);
      }
    }
  }
  return complete;
};
