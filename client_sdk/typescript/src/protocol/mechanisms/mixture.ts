/** `ladder` and `tree`: one of several components, drawn by a private coin, over the bins of a number. */

import { MOST_BINS, MOST_COMPONENTS, MOST_ROW, WHOLE } from "../../generated/limits.ts";
import { type Take, below, bitLength, coin, pick, placesOf } from "../draws.ts";
import { require } from "../refused.ts";
import { type Mechanism, type Parameters, packed, sizeOfPacked } from "./base.ts";
import { randomSet } from "./random_set.ts";

interface Component {
  readonly weight: bigint;
  readonly width: bigint;
  /** How near and far reports weigh against each other. */
  readonly near: bigint;
  readonly far: bigint;
  readonly bits: number;
  /** The component's own number for a bin. */
  draw(take: Take, x: bigint, truth: readonly [bigint, bigint]): bigint;
}

const sets = (d: bigint, [width, count, weight]: readonly bigint[]): Component => {
  const [wide, k] = [width!, count!];
  const cells = (d + wide - 1n) / wide;
  const w = BigInt(bitLength(cells - 1n));
  // A list of cells, or a bit for each cell but the last: how many there are is known.
  const isList = k * w < cells - 1n;
  return {
    weight: weight!,
    width: wide,
    near: k,
    far: cells - k,
    bits: Number(isList ? k * w : cells - 1n),
    draw: (take, x, truth) => {
      const chosen = randomSet(take, x / wide, cells, k, truth);
      if (!isList) return chosen & ((1n << (cells - 1n)) - 1n);
      return placesOf(chosen, Number(cells)).reduce((sum, place, i) => sum | (BigInt(place) << (BigInt(i) * w)), 0n);
    },
  };
};

const window = (d: bigint, [width, weight]: readonly bigint[]): Component => ({
  weight: weight!,
  width: width!,
  near: width!,
  far: d - 1n,
  bits: bitLength(d + width! - 2n),
  draw: (take, x, [a, b]) => {
    const inside = below(take, width!);
    const outside = below(take, d - 1n);
    return coin(take, a, b) ? x + inside : outside + (outside >= x ? width! : 0n);
  },
});

const components = (p: Parameters, d: bigint): Component[] => [
  ...(p.sets ?? []).map((row) => sets(d, row)),
  ...(p.windows ?? []).map((row) => window(d, row)),
];

/** What stands before the bits of a component, and how many bits that is. */
const before = (all: readonly Component[], i: number): readonly [number: bigint, bits: number] => {
  if (all.length === 1) return [0n, 0];
  return i ? [1n | (BigInt(i - 1) << 1n), 1 + bitLength(BigInt(all.length - 2))] : [0n, 1];
};

const bitsOf = (all: readonly Component[]): number => Math.max(...all.map((one, i) => before(all, i)[1] + one.bits));

const mixture = (lists: Readonly<Record<string, number>>): Mechanism<bigint> => ({
  means: false,
  over: "bins",
  texts: ["low", "high"],
  lists,
  ratio: (p, d) => {
    const [low, high] = [p.low!, p.high!];
    const all = components(p, d);
    // Rows of another length and numbers below 1 were refused when they were read.
    for (const rows of [p.sets!, p.windows ?? []])
      require(rows.every((row, i) => i === 0 || rows[i - 1]![0]! < row[0]!), "columns are not in order");
    require(p.windows?.length || p.sets?.[0]?.[0] === 1n, "the matrix has another shape");
    require(
      low >= 1n && low < high && d <= MOST_BINS && all.length <= MOST_COMPONENTS &&
        all.reduce((sum, { weight }) => sum + weight, 0n) === WHOLE &&
        all.every(({ width, near, far }) => width < d && far >= 1n && near * high + far * low <= MOST_ROW),
      "a parameter is out of range",
    );
    return [high, low];
  },
  bytes: (p, d) => sizeOfPacked(bitsOf(components(p, d))),
  randomize: (take, x, p, d) => {
    const all = components(p, d);
    const i = Number(pick(take, all.map(({ weight }) => weight)));
    const one = all[i]!;
    const near = one.near * p.high!;
    const told = one.draw(take, x, [near, near + one.far * p.low!]);
    const [number, bits] = before(all, i);
    return packed(number | (told << BigInt(bits)), bitsOf(all));
  },
});

export const ladder = mixture({ sets: 3, windows: 2 });

export const tree = mixture({ sets: 3 });
