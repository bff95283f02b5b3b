/** Optimal local hashing, by a linear hash over a prime field. */

import { W, below, coin } from "../draws.ts";
import { require } from "../refused.ts";
import { type Mechanism, keepRatio, sizeOfSymbol, symbol } from "./base.ts";

const isPrime = (n: bigint): boolean => {
  for (let factor = 2n; factor * factor <= n; factor++) if (n % factor === 0n) return false;
  return n > 1n;
};

/** g to the number of digits that a value has in base g. */
const hashes = (d: bigint, g: bigint): bigint => {
  let power = g;
  while (power < d) power *= g;
  return power;
};

export const olh: Mechanism<bigint> = {
  means: false,
  texts: ["keep"],
  numbers: ["buckets"],
  ratio: (p) => {
    require(p.buckets! < 256n && isPrime(p.buckets!), "buckets is no prime below 256");
    return keepRatio(p.keep!, p.buckets!);
  },
  bytes: (p, d) => sizeOfSymbol(hashes(d, p.buckets!) * p.buckets!),
  randomize: (take, x, p, d) => {
    const g = p.buckets!;
    const all = hashes(d, g);
    const hash = below(take, all);
    let bucket = 0n;
    for (let power = 1n; power < all; power *= g) bucket += ((hash / power) % g) * ((x / power) % g);
    bucket %= g;
    const lie = (bucket + 1n + below(take, g - 1n)) % g;
    const told = coin(take, p.keep!, W) ? bucket : lie;
    return symbol(hash * g + told, all * g);
  },
};
