/** Draws that walk through every outcome instead of drawing one: the randomizers run on them as they are.
 *
 * `test/plant.mjs` puts this module in the place of `src/protocol/draws.ts`. Each draw asks the walk which outcome comes
 * next, and says how many there are and how likely each is. */

import { type Fraction, fraction } from "../src/protocol/fraction.ts";
import { bitLength, placesOf, W } from "../src/protocol/draws.ts";

export { W, bitLength, placesOf };
export type Take = (n: number) => Uint8Array;

export class TooLong extends Error {}

/** The path that is walked now: of each draw, which outcome it is, and out of how many. */
export class Walk {
  readonly path: [outcome: number, outcomes: number][] = [];
  private at = 0;
  probability: Fraction = [1n, 1n];
  /** A path with more draws than this is left out. */
  readonly longest: number;

  constructor(longest = Infinity) {
    this.longest = longest;
  }

  begin(): void {
    this.at = 0;
    this.probability = [1n, 1n];
  }

  choose(weights: readonly bigint[], total: bigint): number {
    const possible = [...weights.keys()].filter((i) => weights[i]);
    if (this.at === this.longest) throw new TooLong();
    if (this.at === this.path.length) this.path.push([0, possible.length]);
    const outcome = possible[this.path[this.at++]![0]]!;
    const [n, d] = this.probability;
    this.probability = fraction(n * weights[outcome]!, d * total);
    return outcome;
  }

  /** Go to the next path. False if there is none. */
  next(): boolean {
    while (this.path.length) {
      const last = this.path[this.path.length - 1]!;
      if (++last[0] < last[1]) return true;
      this.path.pop();
    }
    return false;
  }
}

export let walk = new Walk();
export const start = (longest?: number): Walk => (walk = new Walk(longest));

export const below = (_: Take, n: bigint): bigint =>
  BigInt(walk.choose(Array.from({ length: Number(n) }, () => 1n), n));

export const coin = (_: Take, a: bigint, b: bigint): boolean => walk.choose([b - a, a], b) === 1;

export const pick = (_: Take, weights: readonly bigint[]): bigint =>
  BigInt(walk.choose(weights, weights.reduce((sum, weight) => sum + weight, 0n)));

export const coins = (take: Take, n: number, a: bigint, places: number): bigint => {
  const whole = 1n << BigInt(places);
  let found = 0n;
  for (let i = 0; i < n; i++) if (coin(take, a, whole)) found |= 1n << BigInt(i);
  return found;
};

const subsets = new Map<string, bigint[]>();

/** Every subset of this size is as likely as another: that Floyd's way and the mended coins do this is for the vectors. */
export const subsetBits = (_: Take, n: number, k: number): bigint => {
  let all = subsets.get(`${n} ${k}`);
  if (!all) {
    all = Array.from({ length: 2 ** n }, (_, x) => BigInt(x)).filter((x) => placesOf(x, n).length === k);
    subsets.set(`${n} ${k}`, all);
  }
  return all[walk.choose(all.map(() => 1n), BigInt(all.length))]!;
};

export const discreteLaplace = (): never => {
  throw new Error("has no finite walk");
};

