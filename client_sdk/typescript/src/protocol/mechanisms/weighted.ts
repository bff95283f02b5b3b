/** Randomizers of numbers that pick a symbol by weights: what `table`, `piecewise` and `hybrid` share. */

import { MOST_ROW, MOST_STEPS, MOST_SYMBOLS } from "../../generated/limits.ts";
import { pick } from "../draws.ts";
import { require } from "../refused.ts";
import { type Mechanism, type Parameters, type Place, point, sizeOfSymbol, symbol } from "./base.ts";

export const weighted = (
  numbers: readonly string[],
  weights: (i: bigint, p: Parameters) => bigint[],
  /** The rules beside those on low, high, steps and the number of symbols; then the sum of a row. */
  check: (p: Parameters) => bigint,
  symbols: (p: Parameters) => bigint,
): Mechanism<Place> => ({
  means: true,
  texts: ["low", "high"],
  numbers,
  ratio: (p) => {
    require(p.steps! >= 1n && p.steps! <= MOST_STEPS && p.low! >= 1n && p.low! < p.high!, "a parameter is out of range");
    require(symbols(p) <= MOST_SYMBOLS, "too many symbols");
    require(check(p) <= MOST_ROW, "the weights are too large");
    return [p.high!, p.low!];
  },
  bytes: (p) => sizeOfSymbol(symbols(p)),
  randomize: (take, place, p) => {
    const row = weights(point(take, place, p.steps!), p);
    return symbol(pick(take, row), BigInt(row.length));
  },
});
