/** Mechanisms: what each one promises, and the encodings and rules that several share. */

import { bigEndian, type Bytes } from "../bytes.ts";
import { type Take, W, bitLength, coin } from "../draws.ts";
import { type Fraction, compare } from "../fraction.ts";
import { require } from "../refused.ts";

/** Where a number lies between its bounds, as up / whole, not reduced. */
export type Place = readonly [up: bigint, whole: bigint];

type Rows = readonly (readonly bigint[])[];

export type Parameters = { readonly [name: string]: bigint } & {
  readonly columns?: Rows;
  readonly sets?: Rows;
  readonly windows?: Rows;
};

/** One randomizer. `x` is the index of a value, or for a number the place between its bounds; d is the number of values. */
export interface Mechanism<X = never> {
  /** Whether it takes numbers. */
  readonly means: boolean;
  /** Whether it is for the bins of a number, or for lists of values and bins alike. Else it is for lists, or numbers. */
  readonly over?: "bins" | "both";
  /** Parameters that are written as text, and those that are JSON numbers. */
  readonly texts: readonly string[];
  readonly numbers?: readonly string[];
  /** Parameters that are lists, with the number of JSON numbers in each. */
  readonly lists?: Readonly<Record<string, number>>;
  /** The largest ratio of the probabilities of one report. Refuses integers that are no such mechanism. */
  ratio(p: Parameters, d: bigint): Fraction;
  /** Whether `ratio` is the logarithm of it. */
  readonly logarithm?: boolean;
  /** The length of each payload. */
  bytes(p: Parameters, d: bigint): number;
  randomize(take: Take, x: X, p: Parameters, d: bigint): Bytes;
}

const symbolBytes = (s: bigint): number => Math.ceil(bitLength(s - 1n) / 8);

/** One of s symbols, big-endian. */
export const symbol = (y: bigint, s: bigint): Bytes => bigEndian(y, symbolBytes(s));

export const sizeOfSymbol = symbolBytes;

/** n bits, little-endian. */
export const packed = (z: bigint, n: number): Bytes => bigEndian(z, sizeOfPacked(n)).reverse();

export const sizeOfPacked = (n: number): number => Math.ceil(n / 8);

/** The ratio of a mechanism that tells one of g symbols truly with probability keep / W, and else any other one. */
export const keepRatio = (keep: bigint, g: bigint): Fraction => {
  require(W < g * keep && keep < W, "keep is out of range");
  return [keep * (g - 1n), W - keep];
};

/** A grid point 0 to m, rounded at random. */
export const point = (take: Take, [up, whole]: Place, m: bigint): bigint => {
  const belowIt = (up * m) / whole;
  return belowIt + (coin(take, up * m - belowIt * whole, whole) ? 1n : 0n);
};

const SERIES = 1n << 256n;

/** Whether a ratio is at most e^epsilon, by a series of integers that sums from below. */
const atMostExp = (ratio: Fraction, epsilon: Fraction): boolean => {
  let total = 0n;
  let i = 0n;
  for (let term = SERIES; term; term = (term * epsilon[0]) / (epsilon[1] * i)) {
    total += term;
    i++;
  }
  return ratio[0] * SERIES <= total * ratio[1];
};

/** Whether a mechanism keeps its epsilon. */
export const keepsEpsilon = (mechanism: Mechanism, p: Parameters, d: bigint, epsilon: Fraction): boolean => {
  const ratio = mechanism.ratio(p, d);
  return mechanism.logarithm ? compare(ratio, epsilon) <= 0 : atMostExp(ratio, epsilon);
};
