/** `piecewise`, or one of the two ends. */

import { MOST_SYMBOLS } from "../../generated/limits.ts";
import { require } from "../refused.ts";
import { type Parameters } from "./base.ts";
import { pieceSum, pieceSymbols, pieceWeights } from "./piecewise.ts";
import { weighted } from "./weighted.ts";

const weights = (i: bigint, p: Parameters): bigint[] => {
  const { low, high, steps, inner, outer } = p as { [name: string]: bigint };
  const row = inner! ? pieceWeights(i, p).map((weight) => inner! * weight) : [];
  if (outer!) row.push(outer * (high! * (steps! - i) + low! * i), outer * (low! * (steps! - i) + high! * i));
  return row;
};

export const hybrid = weighted(
  ["steps", "stride", "window", "inner", "outer"],
  weights,
  (p) => {
    require(p.inner! || p.outer!, "inner and outer are both 0");
    require(pieceSymbols(p) <= MOST_SYMBOLS, "too many symbols");
    return p.inner! * pieceSum(p) + p.outer! * p.steps! * (p.low! + p.high!);
  },
  (p) => (p.inner ? pieceSymbols(p) : 0n) + (p.outer ? 2n : 0n),
);
