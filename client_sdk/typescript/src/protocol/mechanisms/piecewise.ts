/** A window of favoured symbols that moves with the number. */

import { require } from "../refused.ts";
import { type Parameters } from "./base.ts";
import { weighted } from "./weighted.ts";

export const pieceSymbols = (p: Parameters): bigint => p.steps! * p.stride! + p.window!;

export const pieceWeights = (i: bigint, p: Parameters): bigint[] => {
  const first = i * p.stride!;
  return Array.from({ length: Number(pieceSymbols(p)) }, (_, j) =>
    BigInt(j) >= first && BigInt(j) < first + p.window! ? p.high! : p.low!,
  );
};

export const pieceSum = (p: Parameters): bigint => {
  require(p.stride! >= 1n && p.window! >= 1n, "stride or window is out of range");
  return p.window! * p.high! + p.steps! * p.stride! * p.low!;
};

export const piecewise = weighted(["steps", "stride", "window"], pieceWeights, pieceSum, pieceSymbols);
