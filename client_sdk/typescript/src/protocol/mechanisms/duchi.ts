/** A number in one bit: one of its bounds at random, then randomized response. */

import { W, coin } from "../draws.ts";
import { type Mechanism, type Place, keepRatio, point, symbol } from "./base.ts";

export const duchi: Mechanism<Place> = {
  means: true,
  texts: ["keep"],
  ratio: (p) => keepRatio(p.keep!, 2n),
  bytes: () => 1,
  randomize: (take, place, p) => {
    const end = point(take, place, 1n);
    return symbol(coin(take, p.keep!, W) ? end : 1n - end, 2n);
  },
};
