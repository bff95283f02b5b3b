/** A random set of places that contains one place more often than the others. */

import { type Take, below, coin, subsetBits } from "../draws.ts";

/** k of d places as the 1 bits of an integer, x among them with the probability a / b. */
export const randomSet = (take: Take, x: bigint, d: bigint, k: bigint, [a, b]: readonly [bigint, bigint]): bigint => {
  const others = subsetBits(take, Number(d - 1n), Number(k - 1n));
  let last: bigint;
  do last = below(take, d - 1n);
  while ((others >> last) & 1n);
  const chosen = others | (1n << (coin(take, a, b) ? d - 1n : last));
  const turn = (x + 1n) % d;
  return ((chosen << turn) | (chosen >> (d - turn))) & ((1n << d) - 1n);
};
