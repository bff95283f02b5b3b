/** Reducers: many values of a period become one. */

import { REMEMBERED } from "../generated/limits.ts";
import { type Take, below, coin } from "./draws.ts";
import { type Value } from "./values.ts";

type Pair = [value: Value, count: number];

/** How many values there were, and what is kept of them. */
export interface Reduced {
  readonly n: number;
  readonly kept: Value | Value[] | Pair[];
}

/** The pairs with one more value. */
const counted = (seen: readonly Pair[], v: Value): Pair[] => {
  if (seen.some(([value]) => value === v)) return seen.map(([value, count]) => [value, count + Number(value === v)]);
  if (seen.length < REMEMBERED) return [...seen, [v, 1]];
  const least = Math.min(...seen.map(([, count]) => count));
  const at = seen.findIndex(([, count]) => count === least);
  return seen.with(at, [v, least + 1]);
};

type Step = (kept: never, v: never, n: number, take: Take) => Reduced["kept"];

const STEPS: Record<string, Step> = {
  first: (kept: Value) => kept,
  last: (_, v: Value) => v,
  sum: (kept: number, v: number) => Math.max(-Number.MAX_VALUE, Math.min(Number.MAX_VALUE, kept + v)),
  max: (kept: Value, v: Value) => (v > kept ? v : kept),
  min: (kept: Value, v: Value) => (v < kept ? v : kept),
  mean: (kept: number, v: number, n) => kept - kept / n + v / n,
  count: (_kept, _v, n) => n,
  reservoir: (kept: Value, v: Value, n, take) => (coin(take, 1n, BigInt(n)) ? v : kept),
  median: (kept: Value[], v: Value, n, take) =>
    kept.length < REMEMBERED
      ? [...kept, v]
      : coin(take, BigInt(REMEMBERED), BigInt(n))
        ? kept.with(Number(below(take, BigInt(REMEMBERED))), v)
        : kept,
  most_common: (kept: Pair[], v: Value) => counted(kept, v),
};

/** The state after one more value. Before the first one it is undefined. */
export const reduce = (reducer: string, state: Reduced | undefined, v: Value, take: Take): Reduced => {
  if (!state) return { n: 1, kept: reducer === "median" ? [v] : reducer === "most_common" ? [[v, 1]] : reducer === "count" ? 1 : v };
  const n = state.n + 1;
  return { n, kept: STEPS[reducer]!(state.kept as never, v as never, n, take) };
};

/** The one value that a state stands for. */
export const reducedValue = (reducer: string, { kept }: Reduced): Value => {
  if (reducer === "median") {
    const ordered = (kept as number[]).toSorted((a, b) => a - b);
    const middle = ordered.length >> 1;
    return ordered.length & 1 ? ordered[middle]! : ordered[middle - 1]! / 2 + ordered[middle]! / 2;
  }
  if (reducer === "most_common") {
    const pairs = kept as Pair[];
    const most = Math.max(...pairs.map(([, count]) => count));
    return pairs.find(([, count]) => count === most)![0];
  }
  return kept as Value;
};
