/** Binary randomized response. */

import { W, coin } from "../draws.ts";
import { require } from "../refused.ts";
import { type Mechanism, keepRatio, symbol } from "./base.ts";

export const rr: Mechanism<bigint> = {
  means: false,
  texts: ["keep"],
  ratio: (p, d) => {
    require(d === 2n, "rr takes two values");
    return keepRatio(p.keep!, 2n);
  },
  bytes: () => 1,
  randomize: (take, x, p) => symbol(coin(take, p.keep!, W) ? x : 1n - x, 2n),
};
