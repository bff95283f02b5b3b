/** The law of each randomizer, by walking through all outcomes of its coins: `node --import ./test/plant.mjs test/law.ts`
 * with DRAWS=walking_draws.ts. It prints the mechanisms whose law was found, or fails. */

import assert from "node:assert/strict";

import { hex } from "../src/protocol/bytes.ts";
import { type Fraction, add, compare, fraction } from "../src/protocol/fraction.ts";
import { keepsEpsilon } from "../src/protocol/mechanisms/base.ts";
import { sizeOf } from "../src/protocol/metric.ts";
import { placeOf, randomize } from "../src/protocol/values.ts";
import { metricOf, number, vectors } from "./support.ts";
import * as draws from "./walking_draws.ts";

/** Payloads with their probabilities. */
const lawOf = (act: () => Uint8Array, longest?: number): Map<string, Fraction> => {
  const law = new Map<string, Fraction>();
  const walk = draws.start(longest);
  do {
    walk.begin();
    try {
      const payload = hex(act());
      law.set(payload, add(law.get(payload) ?? [0n, 1n], walk.probability));
    } catch (error) {
      if (!(error instanceof draws.TooLong)) throw error;
    }
  } while (walk.next());
  if (!longest) return law;
  const [n, d] = [...law.values()].reduce(add);
  return new Map([...law].map(([payload, p]) => [payload, fraction(p[0] * d, p[1] * n)]));
};

const none = (): never => {
  throw new Error("a byte was taken");
};

const found = new Set<string>();
for (const given of vectors("randomizer.json")) {
  const metric = metricOf(given);
  const size = Number(sizeOf(metric));
  const outcomes = given.mechanism === "linear-hash" ? size ** (given.parameters.bits ?? 1) * 2 ** (2 * given.parameters.bits) : size;
  // `subset` draws its last value until it is a new one. Each try is as any other, so its law is that of one try, given
  // that it is new: three draws.
  const longest = given.mechanism === "subset" ? 3 : undefined;
  // The same draws inside a component. Sets of one cell try once.
  if (given.parameters.sets?.some(([, count]: number[]) => count! > 1)) continue;
  // What has no finite walk, or a long one.
  if (given.mechanism === "laplace" || (longest && size > 8) || size > 9 || outcomes > 3000 || (/oue|sue/.test(given.mechanism) && size > 10)) continue;
  const inputs =
    metric.type === "mean"
      ? ["-9999", ...Array.from({ length: 7 }, (_, i) => String(i * 13)), "9999", ...given.domain.bounds].map((text) =>
          placeOf(number(text), metric.lower, metric.upper),
        )
      : Array.from({ length: size }, (_, i) => BigInt(i));
  const laws = inputs.map((x) => lawOf(() => randomize(metric, x, none), longest));
  const payloads = new Set(laws.flatMap((law) => [...law.keys()]));
  let worst: Fraction = [1n, 1n];
  for (const law of laws) assert.deepEqual([...law.values()].reduce(add), [1n, 1n]);
  for (const payload of payloads) {
    const chances = laws.map((law) => law.get(payload) ?? ([0n, 1n] as const)).sort(compare);
    const [least, most] = [chances[0]!, chances.at(-1)!];
    assert.notEqual(least[0], 0n, `${given.mechanism}: ${payload} is impossible from some values`);
    const ratio: Fraction = [most[0] * least[1], most[1] * least[0]];
    if (compare(ratio, worst) > 0) worst = ratio;
  }
  const claimed = metric.mechanism.ratio(metric.parameters, sizeOf(metric));
  assert.equal(compare(worst, claimed), 0, `${given.mechanism}: the largest ratio is not what is claimed`);
  assert.ok(keepsEpsilon(metric.mechanism, metric.parameters, sizeOf(metric), metric.epsilon));
  found.add(given.mechanism);
}
console.log([...found].sort().join(" "));
