/** Recorded values: what a metric takes, and the input that its mechanism gets. */

import { type Bytes } from "./bytes.ts";
import { type Json, decimal } from "./canonical.ts";
import { type Take } from "./draws.ts";
import { type Fraction, compare, minus, ofDouble } from "./fraction.ts";
import { type Mechanism, type Place } from "./mechanisms/base.ts";
import { type Metric, sizeOf } from "./metric.ts";
import { require } from "./refused.ts";

export type Value = boolean | string | number;

const listed = (metric: Metric, value: string): string => {
  const found = metric.values.includes(value) ? value : metric.other;
  require(found !== null, "not in the list, which has no other");
  return found;
};

/** The double that is nearest to the lower or the upper end. */
const bound = (metric: Metric, which: 0 | -1): number =>
  Number(((metric.document.bounds ?? metric.document.edges) as string[]).at(which));

/** A recorded value as it is kept. */
export const taken = (metric: Metric, value: unknown): Value => {
  if (metric.type === "boolean") {
    require(typeof value === "boolean", "not a boolean");
    return value;
  }
  if (metric.type === "category") {
    require(typeof value === "string", "not a string");
    return listed(metric, value.normalize());
  }
  require((typeof value === "number" && !Number.isNaN(value)) || typeof value === "bigint", "not a number");
  const double = Number(value);
  return Math.abs(double) === Infinity ? bound(metric, double > 0 ? -1 : 0) : double;
};

/** Where x, clamped to the bounds, lies between them. */
export const placeOf = ([p, q]: Fraction, [a, b]: Fraction, [c, d]: Fraction): Place => {
  const [u, v] = minus([c, d], [a, b]);
  const up = (p * b - a * q) * v;
  const whole = q * b * u;
  return up <= 0n ? [0n, 1n] : up >= whole ? [1n, 1n] : [up, whole];
};

/** The input of the mechanism, from a reduced value or from `missing`. */
export const inputOf = (metric: Metric, value: Json): bigint | Place => {
  if (metric.type === "boolean") {
    require(typeof value === "boolean", "not a boolean");
    return value ? 1n : 0n;
  }
  if (metric.type === "category") {
    require(typeof value === "string", "not a string");
    return BigInt(metric.values.indexOf(listed(metric, value)));
  }
  // A declared `missing` is exact decimal text; a recorded number is a double.
  require(typeof value !== "object" && typeof value !== "boolean", "not a number");
  const number = typeof value === "string" ? decimal(value) : ofDouble(value);
  if (metric.edges.length) return BigInt(metric.edges.slice(1, -1).filter((edge) => compare(edge, number) <= 0).length);
  return placeOf(number, metric.lower, metric.upper);
};

/** The payload for an input. The only place that draws the noise. */
export const randomize = (metric: Metric, x: bigint | Place, take: Take): Bytes =>
  (metric.mechanism as Mechanism<typeof x>).randomize(take, x, metric.parameters, sizeOf(metric));
