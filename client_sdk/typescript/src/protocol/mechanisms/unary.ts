/** Unary encodings, with a noisy bit for each value: `oue` and `sue`, which differ in how often the true bit is kept. */

import { W, coin, coins } from "../draws.ts";
import { require } from "../refused.ts";
import { type Mechanism, packed, sizeOfPacked } from "./base.ts";

const unary = (keepOf: (flip: bigint) => bigint): Mechanism<bigint> => ({
  means: false,
  texts: ["flip"],
  ratio: (p) => {
    const flip = p.flip!;
    require(flip > 0n && 2n * flip < W, "flip is out of range");
    return [keepOf(flip) * (W - flip), flip * (W - keepOf(flip))];
  },
  bytes: (_, d) => sizeOfPacked(Number(d)),
  randomize: (take, x, p, d) => {
    const noise = coins(take, Number(d), p.flip!, 64);
    const one = coin(take, keepOf(p.flip!), W);
    const bit = 1n << x;
    return packed(one ? noise | bit : noise & ~bit, Number(d));
  },
});

export const oue = unary(() => W / 2n);
export const sue = unary((flip) => W - flip);
