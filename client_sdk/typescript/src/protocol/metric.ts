/** Metrics: rebuilt from a codebook and checked in every detail, or refused. */

import {
  BOUNDS_POWER,
  EPSILON_RANGE,
  LABEL_METRIC,
  LARGEST_INTEGER,
  LONGEST_UNIT,
  MOST_BINS,
  MOST_MIN_BATCH,
  MOST_VALUES,
  NOT_IN_UNIT,
} from "../generated/limits.ts";
import { LONGEST_VALUE } from "../generated/up_front.ts";
import { REDUCERS } from "../generated/reducers.ts";
import { sha256, utf8 } from "./bytes.ts";
import { type Json, type Members, canonical, decimal, isInteger, isObject } from "./canonical.ts";
import { W } from "./draws.ts";
import { type Fraction, ZERO, compare, minus } from "./fraction.ts";
import { type Mechanism, type Parameters, keepsEpsilon } from "./mechanisms/base.ts";
import { MECHANISMS } from "./mechanisms/registry.ts";
import { require } from "./refused.ts";

export interface Metric {
  readonly id: string;
  readonly name: string;
  readonly type: "boolean" | "category" | "mean" | "distribution" | "count";
  readonly epsilon: Fraction;
  readonly mechanism: Mechanism;
  readonly parameters: Parameters;
  readonly reduce: string;
  readonly shareThreshold: bigint;
  readonly missing: Json;
  readonly enabled: boolean;
  readonly expires: string | null;
  readonly values: readonly string[];
  readonly other: string | null;
  readonly lower: Fraction;
  readonly upper: Fraction;
  /** Where bins end; empty for a type that has none. */
  readonly edges: readonly Fraction[];
  /** As it was received. */
  readonly document: Members;
}

/** The number of values, or of bins. */
export const sizeOf = (metric: Metric): bigint => BigInt(metric.edges.length ? metric.edges.length - 1 : metric.values.length || 2);

export type Lane = "steady" | "occasional";

export const laneOf = (metric: Metric): Lane => (metric.missing === null ? "occasional" : "steady");

/** Whether the first value is drawn before the period ends. */
export const isAtOnce = (metric: Metric): boolean => metric.reduce === "first" && metric.missing === null;

/** Whether an object has all of `must`, and beside them only some of `may`. */
export const hasMembers = (value: unknown, must: string, may = ""): value is Members => {
  const all = must.split(" ");
  return (
    isObject(value) &&
    all.every((name) => Object.hasOwn(value, name)) &&
    Object.keys(value).every((name) => all.includes(name) || may.split(" ").includes(name))
  );
};

export const matches = (value: unknown, pattern: RegExp): value is string =>
  typeof value === "string" && pattern.test(value);

const MOST_DIGITS_OF_PARAMETER = 40;

/** An integer that is written as text. */
const digits = (value: unknown): bigint => {
  require(matches(value, /^(0|[1-9][0-9]*)$/) && value.length <= MOST_DIGITS_OF_PARAMETER, "not digits in a string");
  return BigInt(value);
};

/** The parameters of a mechanism as integers. */
export const readParameters = (name: string, given: unknown): Parameters => {
  const { texts, numbers = [], lists: rows = {} } = MECHANISMS.get(name)!;
  const lists = name === "matrix" || name === "table";
  const wanted = [...texts, ...numbers, ...Object.keys(rows), ...(lists ? ["columns"] : [])];
  require(hasMembers(given, wanted.join(" ")), "the mechanism has other parameters");
  const p: { [name: string]: bigint } = {};
  for (const member of texts) p[member] = digits(given[member]);
  for (const member of numbers) {
    require(isInteger(given[member], 0), member);
    p[member] = BigInt(given[member]);
  }
  for (const [member, width] of Object.entries(rows)) {
    const listed = given[member];
    require(Array.isArray(listed), member);
    (p as { [name: string]: unknown })[member] = listed.map((row) => {
      require(Array.isArray(row) && row.length === width, member);
      return row.map((entry) => {
        require(isInteger(entry, 1), member);
        return BigInt(entry);
      });
    });
  }
  if (!lists) return p;
  const entries = (column: Json): bigint[] => {
    require(Array.isArray(column) && (name === "matrix" || column.length === 4), "columns");
    return column.map((entry) => {
      if (name === "matrix") return digits(entry);
      require(isInteger(entry, -LARGEST_INTEGER), "columns");
      return BigInt(entry);
    });
  };
  require(Array.isArray(given.columns) && given.columns.length, "columns");
  return { ...p, columns: given.columns.map(entries) } as unknown as Parameters;
};

const isValue = (text: unknown): text is string =>
  typeof text === "string" &&
  text.length > 0 &&
  [...text].length <= LONGEST_VALUE &&
  text.normalize() === text &&
  !/[\0-\x1f\x7f-\x9f\u2028\u2029]/.test(text);

const isUnit = (text: unknown): boolean =>
  typeof text === "string" &&
  text.length > 0 &&
  text.length <= LONGEST_UNIT &&
  text.trim() === text &&
  !NOT_IN_UNIT.test(text);

const isDate = (text: unknown): boolean =>
  matches(text, /^(?!0000)\d{4}-\d\d-\d\d$/) &&
  !Number.isNaN(Date.parse(text)) &&
  new Date(text).toISOString().startsWith(text);

const NOT_IN_ID = ["id", "min_batch", "enabled", "description", "owner", "expires", "unit", "notes"];

export const metricId = async (document: Members, collection: string, period: number): Promise<string> => {
  const about: Members = Object.fromEntries(Object.entries(document).filter(([name]) => !NOT_IN_ID.includes(name)));
  return (await sha256(utf8(LABEL_METRIC + canonical({ ...about, collection, period })))).slice(0, 32);
};

const COMMON =
  "id name type epsilon mechanism report_bytes reduce share share_threshold missing memoize min_batch enabled description owner expires";
const OF_TYPE: Record<string, string> = { boolean: "", category: " values other", mean: " bounds", distribution: " edges", count: " edges" };

/** The ends of a range of numbers, from all the numbers that divide it. */
const bounds = (m: Members, numbers: readonly Fraction[]): readonly [Fraction, Fraction] => {
  require(numbers.every((edge, i) => i === 0 || compare(numbers[i - 1]!, edge) < 0), "not in order");
  const [lower, upper] = [numbers[0]!, numbers.at(-1)!];
  const most = 10n ** BOUNDS_POWER;
  for (const [n, d] of [lower, upper, minus(upper, lower)]) {
    const size = n < 0n ? -n : n;
    require(size === 0n || (size * most >= d && size <= d * most), "bounds are out of range");
  }
  require(!Object.hasOwn(m, "unit") || isUnit(m.unit), "unit");
  return [lower, upper];
};

/** The metric, if every rule of it holds. A codebook that came with the app need not have its `min_batch`. */
export const readMetric = async (m: Json, collection: string, period: number, bundled = true): Promise<Metric> => {
  require(isObject(m) && typeof m.type === "string" && Object.hasOwn(OF_TYPE, m.type), "the type is not known");
  const type = m.type as Metric["type"];
  const mean = type === "mean";
  const binned = OF_TYPE[type] === " edges";
  require(hasMembers(m, COMMON + OF_TYPE[type], mean || binned ? "unit notes" : "notes"), "members are missing or unknown");
  require(matches(m.name, /^[a-z][a-z0-9_]{0,63}$/), "name");
  require(!Object.hasOwn(m, "notes") || isObject(m.notes), "notes");
  let values: string[] = [];
  if (type === "category") {
    require(Array.isArray(m.values) && m.values.length >= 2 && m.values.length <= MOST_VALUES, "values");
    require(m.values.every(isValue), "values");
    values = m.values as string[];
    require(new Set(values).size === values.length, "values");
    require(m.other === null || values.includes(m.other as string), "other");
  }
  let edges: Fraction[] = [];
  if (binned) {
    require(Array.isArray(m.edges) && m.edges.length >= 3 && m.edges.length <= Number(MOST_BINS) + 1, "edges");
    edges = m.edges.map(decimal);
  }
  require(!mean || (Array.isArray(m.bounds) && m.bounds.length === 2), "bounds");
  const ends = mean ? (m.bounds as Json[]).map(decimal) : edges;
  const [lower, upper] = ends.length ? bounds(m, ends) : [ZERO, [1n, 1n] as const];
  const epsilon = decimal(m.epsilon);
  require(compare(epsilon, EPSILON_RANGE[0]) >= 0 && compare(epsilon, EPSILON_RANGE[1]) <= 0, "epsilon is out of range");
  const d = sizeOf({ edges, values } as unknown as Metric);
  const claimed = m.mechanism;
  require(hasMembers(claimed, "name parameters") && typeof claimed.name === "string", "mechanism");
  const mechanism = MECHANISMS.get(claimed.name);
  require(mechanism && mechanism.means === mean, "the mechanism is not known for this type");
  require(mechanism.over === "both" || (mechanism.over === "bins") === binned, "the mechanism is not known for this type");
  const parameters = readParameters(claimed.name, claimed.parameters);
  require(keepsEpsilon(mechanism, parameters, d, epsilon), "the mechanism spends more than epsilon");
  require(m.report_bytes === mechanism.bytes(parameters, d), "report_bytes");
  require(typeof m.reduce === "string" && REDUCERS[type]!.split(" ").includes(m.reduce), "reduce");
  const share = decimal(m.share);
  require(share[0] > 0n && share[0] <= share[1], "share");
  const shareThreshold = digits(m.share_threshold);
  const threshold = (share[0] * W) / share[1];
  require(shareThreshold === (threshold || 1n), "share_threshold");
  if (m.missing !== null) {
    if (mean || binned) {
      const missing = decimal(m.missing);
      require(compare(lower, missing) <= 0 && compare(missing, upper) <= 0, "missing");
    } else require(type === "boolean" ? typeof m.missing === "boolean" : values.includes(m.missing as string), "missing");
  }
  require(m.memoize === false && typeof m.enabled === "boolean", "memoize or enabled");
  require(isInteger(m.min_batch, 2, MOST_MIN_BATCH) || (!bundled && m.min_batch === null), "min_batch");
  require(typeof m.description === "string" && typeof m.owner === "string", "description or owner");
  require(m.expires === null || isDate(m.expires), "expires");
  require(m.id === (await metricId(m, collection, period)), "the id does not fit");
  return {
    id: m.id,
    name: m.name,
    type,
    epsilon,
    mechanism,
    parameters,
    reduce: m.reduce,
    shareThreshold,
    missing: m.missing!,
    enabled: m.enabled,
    expires: m.expires as string | null,
    values,
    other: (m.other as string | null) ?? null,
    lower,
    upper,
    edges,
    document: m,
  };
};
