/** Canonical JSON and decimal text: each document and each number has one spelling. */

import { LARGEST_INTEGER, MOST_DIGITS, MOST_LEVELS, MOST_POWER } from "../generated/limits.ts";
import { type Fraction, compare, fraction } from "./fraction.ts";
import { Refused, require } from "./refused.ts";

export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };
export type Members = { [name: string]: Json };

const SHORT: Record<string, string> = { '"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r" };

const escaped = (unit: string): string =>
  SHORT[unit] ?? "\\u" + unit.charCodeAt(0).toString(16).padStart(4, "0");

const quoted = (text: string): string => {
  // Halves of surrogate pairs are no characters.
  require(!/[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF]/.test(text), "half of a surrogate pair");
  return '"' + text.replace(/["\\]|[^ -~]/g, escaped) + '"';
};

/** A sort key for UTF-16 units whose order is that of code points. */
const place = (unit: number): number => (unit >= 0xe000 ? unit - 0x800 : unit >= 0xd800 ? unit + 0x2000 : unit);

/** The order of code points, in which canonical JSON and names are sorted. */
export const byCodePoint = (one: string, two: string): number => {
  const shorter = Math.min(one.length, two.length);
  for (let i = 0; i < shorter; i++) {
    const a = one.charCodeAt(i);
    const b = two.charCodeAt(i);
    if (a !== b) return place(a) - place(b);
  }
  return one.length - two.length;
};

/** A document as canonical JSON. */
export const canonical = (value: Json, deep = 0): string => {
  if (value === null || typeof value === "boolean") return String(value);
  if (typeof value === "string") return quoted(value);
  if (typeof value === "number") {
    require(Number.isInteger(value) && Math.abs(value) <= LARGEST_INTEGER, "not an integer that JSON can hold");
    return String(value);
  }
  require(deep < MOST_LEVELS, "too many levels");
  if (Array.isArray(value)) return "[" + value.map((item) => canonical(item, deep + 1)).join() + "]";
  const names = Object.keys(value).sort(byCodePoint);
  return "{" + names.map((name) => quoted(name) + ":" + canonical(value[name]!, deep + 1)).join() + "}";
};

/** The document, if this text is the canonical JSON of it. */
export const parseCanonical = (text: string): Json => {
  let value: Json;
  try {
    value = JSON.parse(text) as Json;
  } catch {
    throw new Refused("not JSON");
  }
  require(canonical(value) === text, "the JSON is not canonical");
  return value;
};

const POWER = 10n ** BigInt(MOST_POWER);

/** The exact number that decimal text says. */
export const decimal = (text: unknown): Fraction => {
  require(typeof text === "string" && text.length <= 400, "not decimal text");
  const parts = /^(-?)(0|[1-9][0-9]*)(?:\.([0-9]*[1-9]))?$/.exec(text);
  require(parts && text !== "-0", "not decimal text");
  const places = parts[3] ?? "";
  const digits = parts[2]! + places;
  require(digits.replace(/^0+|0+$/g, "").length <= MOST_DIGITS, "too many digits");
  const value = fraction(BigInt(parts[1]! + digits), 10n ** BigInt(places.length));
  const size: Fraction = [value[0] < 0n ? -value[0] : value[0], value[1]];
  require(
    size[0] === 0n || (compare(size, [1n, POWER]) >= 0 && compare(size, [10n * POWER, 1n]) < 0),
    "too large or too small a number",
  );
  return value;
};

export const isObject = (value: unknown): value is Members =>
  typeof value === "object" && value !== null && !Array.isArray(value);

export const isInteger = (value: unknown, low: number, high: number = LARGEST_INTEGER): value is number =>
  Number.isInteger(value) && (value as number) >= low && (value as number) <= high;

export const isText = (value: unknown): value is string => typeof value === "string" && value !== "";

export const isId = (value: unknown): value is string => typeof value === "string" && /^[0-9a-f]{32}$/.test(value);

/** Whether these are ascending, and no two alike. */
export const isSorted = (names: readonly string[]): boolean =>
  names.every((name, i) => i === 0 || byCodePoint(names[i - 1]!, name) < 0);
