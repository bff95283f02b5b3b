/** The default for means: a table of symbols, of which one half is listed and the other is its mirror image. */

import { require } from "../refused.ts";
import { type Parameters } from "./base.ts";
import { weighted } from "./weighted.ts";

type Row = readonly bigint[];

/** All symbols as [first, last, weight, moment]. */
const symbols = ({ columns, steps }: Parameters): Row[] => [
  ...columns!,
  ...[...columns!]
    .reverse()
    .filter(([first, last]) => first! + last! < steps!)
    .map(([first, last, weight, moment]) => [steps! - last!, steps! - first!, weight!, -moment!]),
];

const weights = (i: bigint, p: Parameters): bigint[] =>
  symbols(p).map(([first, last, weight]) => weight! * (first! <= i && i <= last! ? p.high! : p.low!));

const check = (p: Parameters): bigint => {
  const columns = p.columns!;
  const m = p.steps!;
  require(columns.length, "there are no columns");
  columns.forEach(([first, last, weight, moment], i) => {
    const [before, beforeLast] = columns[i - 1] ?? [-1n, 0n];
    require(before! < first! || (before === first && beforeLast! < last!), "columns are not in order");
    require(first! >= 0n && first! <= last! && first! + last! <= m, "a column leans to the right");
    require(weight! >= 1n && (moment === 0n || first! + last! < m), "a weight or moment is out of range");
  });
  const all = symbols(p);
  /** The sum of a column's entry over the symbols that cover a point. */
  const over = (i: bigint, entry: number): bigint =>
    all.reduce((sum, row) => (row[0]! <= i && i <= row[1]! ? sum + row[entry]! : sum), 0n);
  const rise = over(1n, 3) - over(0n, 3);
  require(rise > 0n, "the moments do not rise");
  for (let i = 1n; i <= m; i++) {
    require(over(i, 2) === over(0n, 2), "the points are not covered alike");
    require(over(i, 3) - over(i - 1n, 3) === rise, "the moments do not rise evenly");
  }
  return weights(0n, p).reduce((sum, weight) => sum + weight, 0n);
};

export const table = weighted(["steps"], weights, check, (p) => BigInt(symbols(p).length));
