/** Subset selection: k of d values, with the true one more often than the others. */

import { W, bitLength, placesOf } from "../draws.ts";
import { require } from "../refused.ts";
import { type Mechanism, packed, sizeOfPacked } from "./base.ts";
import { randomSet } from "./random_set.ts";

/** Bits of a payload as a list of places, if that is shorter than a bit for each value. */
const listBits = (k: bigint, d: bigint): number | undefined => {
  const size = k * BigInt(bitLength(d - 1n));
  return size < d ? Number(size) : undefined;
};

export const subset: Mechanism<bigint> = {
  means: false,
  over: "both",
  texts: ["keep"],
  numbers: ["count"],
  ratio: ({ keep, count: k }, d) => {
    require(k! > 0n && k! < d && k! * W < d * keep! && keep! < W, "count or keep is out of range");
    return [keep! * (d - k!), (W - keep!) * k!];
  },
  bytes: (p, d) => sizeOfPacked(listBits(p.count!, d) ?? Number(d)),
  randomize: (take, x, { keep, count: k }, d) => {
    const chosen = randomSet(take, x, d, k!, [keep!, W]);
    const size = listBits(k!, d);
    if (size === undefined) return packed(chosen, Number(d));
    const w = bitLength(d - 1n);
    const list = placesOf(chosen, Number(d)).reduce((sum, place, i) => sum | (BigInt(place) << BigInt(i * w)), 0n);
    return packed(list, size);
  },
};
