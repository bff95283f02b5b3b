/** k-ary randomized response. The other value is drawn first, always. */

import { W, below, coin } from "../draws.ts";
import { type Mechanism, keepRatio, sizeOfSymbol, symbol } from "./base.ts";

export const krr: Mechanism<bigint> = {
  means: false,
  texts: ["keep"],
  ratio: (p, d) => keepRatio(p.keep!, d),
  bytes: (_, d) => sizeOfSymbol(d),
  randomize: (take, x, p, d) => {
    const lie = (x + 1n + below(take, d - 1n)) % d;
    return symbol(coin(take, p.keep!, W) ? x : lie, d);
  },
};
