/** Draws: exact random decisions, each made of whole random bytes. No draw uses floating point or is cut short. */

import { fromBigEndian } from "./bytes.ts";

/** A source of randomness: the next n bytes of it. */
export type Take = (n: number) => Uint8Array;

/** W: what thresholds are out of. */
export const W = 1n << 64n;

export const bitLength = (n: bigint): number => (n > 0n ? n.toString(2).length : 0);

/** A uniform integer of n bits: the upper bits of the next whole bytes. */
export const bits = (take: Take, n: number): bigint => {
  const size = Math.ceil(n / 8);
  return n ? fromBigEndian(take(size)) >> BigInt(8 * size - n) : 0n;
};

/** Uniform on 0 to n - 1. */
export const below = (take: Take, n: bigint): bigint => {
  const width = bitLength(n - 1n);
  for (;;) {
    const x = bits(take, width);
    if (x < n) return x;
  }
};

/** True with probability a / b, which is not reduced. */
export const coin = (take: Take, a: bigint, b: bigint): boolean => below(take, b) < a;

/** Index i with probability weights[i] / sum. */
export const pick = (take: Take, weights: readonly bigint[]): bigint => {
  const x = below(
    take,
    weights.reduce((sum, weight) => sum + weight, 0n),
  );
  let total = 0n;
  let passed = 0n;
  for (const weight of weights) {
    total += weight;
    if (total <= x) passed++;
  }
  return passed;
};

/** True with probability exp(-a / b). */
export const coinExp = (take: Take, a: bigint, b: bigint): boolean => {
  for (; a > b; a -= b) if (!coinExp(take, 1n, 1n)) return false;
  let k = 1n;
  while (coin(take, a, b * k)) k++;
  return (k & 1n) === 1n;
};

/** Probability of y in proportion to exp(-|y| rate / scale). */
export const discreteLaplace = (take: Take, scale: bigint, rate: bigint): bigint => {
  for (;;) {
    const r = below(take, scale);
    if (!coinExp(take, r, scale)) continue;
    let k = 0n;
    while (coinExp(take, 1n, 1n)) k++;
    const y = (r + scale * k) / rate;
    const negative = coin(take, 1n, 2n);
    if (!(negative && y === 0n)) return negative ? -y : y;
  }
};

/** n bits at once, each 1 with probability a / 2^places. */
export const coins = (take: Take, n: number, a: bigint, places: number): bigint => {
  const all = (1n << BigInt(n)) - 1n;
  if (a === 1n << BigInt(places)) return all;
  for (; places > 0 && !(a & 1n); places--) a >>= 1n;
  const x = bits(take, n * places);
  let found = 0n;
  for (let i = 0; i < places; i++) {
    const word = (x >> BigInt(i * n)) & all;
    found = (a >> BigInt(i)) & 1n ? found | word : found & word;
  }
  return found;
};

/** k of 0 to n - 1, ascending, by Floyd's method. */
export const subset = (take: Take, n: number, k: number): number[] => {
  const chosen = new Set<number>();
  for (let last = n - k; last < n; last++) {
    const x = Number(below(take, BigInt(last + 1)));
    chosen.add(chosen.has(x) ? last : x);
  }
  return [...chosen].sort((a, b) => a - b);
};

/** The places of the 1 bits of an integer, ascending; or of the 0 bits among the lowest n. */
export const placesOf = (x: bigint, n: number, one = "1"): number[] => {
  const digits = x.toString(2).padStart(n, "0");
  const places: number[] = [];
  for (let i = 0; i < digits.length; i++) if (digits[digits.length - 1 - i] === one) places.push(i);
  return places;
};

/** Floyd's subset as the 1 bits of an integer: by coins that are mended, or one by one if k is small. */
export const subsetBits = (take: Take, n: number, k: number): bigint => {
  const one = (i: number): bigint => 1n << BigInt(i);
  if (16 * k < n) return subset(take, n, k).reduce((sum, i) => sum + one(i), 0n);
  let found = coins(take, n, BigInt(Math.floor((256 * k + Math.floor(n / 2)) / n)), 8);
  const off = placesOf(found, n).length - k;
  const there = placesOf(found, n, off > 0 ? "1" : "0");
  for (const j of subset(take, there.length, Math.abs(off))) found ^= one(there[j]!);
  return found;
};
