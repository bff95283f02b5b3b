/** Any finite randomizer: for each value a column of weights. */

import { W, pick } from "../draws.ts";
import { type Fraction, compare } from "../fraction.ts";
import { require } from "../refused.ts";
import { MOST_VALUES_OF_MATRIX } from "../../generated/limits.ts";
import { type Mechanism, sizeOfSymbol, symbol } from "./base.ts";

const height = (columns: readonly (readonly bigint[])[]): bigint => BigInt(columns[0]!.length);

export const matrix: Mechanism<bigint> = {
  means: false,
  texts: [],
  ratio: ({ columns }, d) => {
    require(columns && d <= MOST_VALUES_OF_MATRIX && BigInt(columns.length) === d, "the matrix has another shape");
    require(height(columns) >= d, "the matrix has another shape");
    for (const column of columns) {
      require(column.length === columns[0]!.length, "the matrix has another shape");
      require(column.reduce((sum, weight) => sum + weight, 0n) === W, "a column does not sum to 2^64");
    }
    let worst: Fraction = [1n, 1n];
    for (let y = 0; y < columns[0]!.length; y++) {
      const row = columns.map((column) => column[y]!);
      const most = row.reduce((a, b) => (a > b ? a : b));
      const least = row.reduce((a, b) => (a < b ? a : b));
      if (!most) continue;
      require(least, "a zero stands beside a weight");
      if (compare([most, least], worst) > 0) worst = [most, least];
    }
    return worst;
  },
  bytes: ({ columns }) => sizeOfSymbol(height(columns!)),
  randomize: (take, x, { columns }) => symbol(pick(take, columns![Number(x)]!), height(columns!)),
};
