/** Exact fractions in lowest terms, with a positive denominator. */

export type Fraction = readonly [numerator: bigint, denominator: bigint];

const divisor = (a: bigint, b: bigint): bigint => {
  while (b) [a, b] = [b, a % b];
  return a < 0n ? -a : a;
};

export const fraction = (numerator: bigint, denominator: bigint): Fraction => {
  const common = divisor(numerator, denominator);
  const sign = denominator < 0n ? -common : common;
  return [numerator / sign, denominator / sign];
};

export const ZERO: Fraction = [0n, 1n];

export const add = (a: Fraction, b: Fraction): Fraction => fraction(a[0] * b[1] + b[0] * a[1], a[1] * b[1]);

export const minus = (a: Fraction, b: Fraction): Fraction => add(a, [-b[0], b[1]]);

/** Negative, zero or positive. */
export const compare = (a: Fraction, b: Fraction): number => {
  const left = a[0] * b[1];
  const right = b[0] * a[1];
  return left < right ? -1 : left > right ? 1 : 0;
};

/** The fraction that a double is. */
export const ofDouble = (value: number): Fraction => {
  let places = 0n;
  // Doubling is exact, and a double has at most 1,074 binary places.
  while (!Number.isInteger(value)) {
    value *= 2;
    places++;
  }
  return fraction(BigInt(value), 1n << places);
};

/** "3/10", for what is kept. */
export const fractionText = (value: Fraction): string => value.join("/");

export const ofText = (text: string): Fraction => {
  const [numerator, denominator] = text.split("/");
  return [BigInt(numerator!), BigInt(denominator!)];
};
