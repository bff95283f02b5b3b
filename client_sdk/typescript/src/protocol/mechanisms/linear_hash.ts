/** Local hashing by parities of the value's bits, and `hadamard`, which is the same with one bit. */

import { MOST_HASH_BITS } from "../../generated/limits.ts";
import { W, below, bitLength, coin } from "../draws.ts";
import { require } from "../refused.ts";
import { type Mechanism, type Parameters, keepRatio, packed, sizeOfPacked } from "./base.ts";

const bitsOf = (p: Parameters): bigint => p.bits ?? 1n;

const parity = (x: bigint): bigint => BigInt(x.toString(2).replace(/0/g, "").length & 1);

export const linearHash: Mechanism<bigint> = {
  means: false,
  texts: ["keep"],
  numbers: ["bits"],
  ratio: (p) => {
    require(bitsOf(p) > 0n && bitsOf(p) <= MOST_HASH_BITS, "bits are out of range");
    return keepRatio(p.keep!, 1n << bitsOf(p));
  },
  bytes: (p, d) => sizeOfPacked(Number(bitsOf(p)) * (bitLength(d - 1n) + 1)),
  randomize: (take, x, p, d) => {
    const t = bitsOf(p);
    const g = 1n << t;
    const w = BigInt(bitLength(d - 1n));
    const masks = below(take, 1n << (t * w));
    let bucket = 0n;
    for (let i = 0n; i < t; i++) bucket |= parity((masks >> (i * w)) & x) << i;
    const lie = (bucket + 1n + below(take, g - 1n)) % g;
    const told = coin(take, p.keep!, W) ? bucket : lie;
    return packed((masks << t) | told, Number(t * (w + 1n)));
  },
};

export const hadamard: Mechanism<bigint> = { ...linearHash, numbers: [] };
