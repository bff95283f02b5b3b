/** Codebooks as they are received: checked, with those of their metrics that this device understands. */

import { CODEBOOK_FORMAT, LABEL_CODEBOOK, LONGEST } from "../generated/limits.ts";
import { sha256, utf8 } from "./bytes.ts";
import { type Json, type Members, canonical, decimal, isId, isInteger, isObject, isSorted } from "./canonical.ts";
import { type Fraction, ZERO, add, compare } from "./fraction.ts";
import { type Metric, hasMembers, matches, readMetric } from "./metric.ts";
import { isLength } from "./period.ts";
import { Refused, require } from "./refused.ts";

/** A codebook that a device can use. */
export interface Page {
  readonly id: string;
  readonly length: number;
  readonly grace: number;
  /** Milliseconds. */
  readonly longestDelay: number;
  readonly deviceEpsilon: Fraction;
  /** In ascending order of names. */
  readonly metrics: ReadonlyMap<string, Metric>;
  /** Why a metric is refused, by its name. */
  readonly refused: ReadonlyMap<string, string>;
  /** What one period spends at most. */
  readonly enabledEpsilon: Fraction;
  readonly document: Members;
}

export const codebookId = async (document: Members): Promise<string> => {
  const { id: _, ...others } = document;
  return (await sha256(utf8(LABEL_CODEBOOK + canonical(others)))).slice(0, 32);
};

const COLLECTION = "name period grace forward_horizon device_epsilon release honest_fraction";

/** The codebook without the metrics that are refused, or a refusal of all of it. */
export const readCodebook = async (document: Json, bundled = true): Promise<Page> => {
  require(hasMembers(document, "format id collection metrics", "notes"), "members are missing or unknown");
  const notes = (about: Members): boolean => !Object.hasOwn(about, "notes") || isObject(about.notes);
  require(document.format === CODEBOOK_FORMAT && notes(document), "format or notes");
  require(isId(document.id) && document.id === (await codebookId(document)), "the id does not fit");
  const c = document.collection;
  require(hasMembers(c, COLLECTION, "delay notes") && notes(c), "members of collection");
  require(matches(c.name, /^[a-z][a-z0-9_-]{0,63}$/) && isLength(c.period), "name or period");
  require(isInteger(c.grace, 1, LONGEST) && isInteger(c.forward_horizon, 1, LONGEST), "grace or forward_horizon");
  let longestDelay = 500 * c.grace;
  if (Object.hasOwn(c, "delay")) {
    require(isInteger(c.delay, 1, LONGEST) && 2 * c.delay <= c.grace, "delay");
    longestDelay = 1000 * c.delay;
  }
  const deviceEpsilon = decimal(c.device_epsilon);
  require(hasMembers(c.release, "epsilon delta"), "release");
  const [epsilon, delta, honest] = [c.release.epsilon, c.release.delta, c.honest_fraction].map(decimal) as Fraction[];
  require(deviceEpsilon[0] > 0n && epsilon![0] > 0n, "device_epsilon or release");
  require(delta![0] > 0n && delta![0] < delta![1], "release");
  require(honest![0] > 0n && honest![0] <= honest![1], "honest_fraction");
  const entries = document.metrics;
  require(Array.isArray(entries) && entries.length, "metrics");
  const names = entries.map((entry) => (isObject(entry) ? entry.name : null)) as string[];
  require(names.every((name) => typeof name === "string") && isSorted(names), "metrics are not sorted by name");
  const metrics = new Map<string, Metric>();
  const refused = new Map<string, string>();
  let enabledEpsilon = ZERO;
  for (const [i, entry] of entries.entries()) {
    try {
      const metric = await readMetric(entry, c.name, c.period, bundled);
      metrics.set(metric.name, metric);
      if (metric.enabled) enabledEpsilon = add(enabledEpsilon, metric.epsilon);
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      refused.set(names[i]!, error.message);
    }
  }
  require(compare(enabledEpsilon, deviceEpsilon) <= 0, "the metrics spend more than device_epsilon");
  return {
    id: document.id,
    length: c.period,
    grace: c.grace,
    longestDelay,
    deviceEpsilon,
    metrics,
    refused,
    enabledEpsilon,
    document,
  };
};
