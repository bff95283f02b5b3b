/** What each of many cases leads to: one case of JSON in a line of standard input, payload and bytes taken in a line of
 * output. tests/typescript/differential.py makes the cases and compares. */

import { createInterface } from "node:readline";

import { hex } from "../src/protocol/bytes.ts";
import { keepsEpsilon } from "../src/protocol/mechanisms/base.ts";
import { sizeOf } from "../src/protocol/metric.ts";
import { inputOf, placeOf, randomize } from "../src/protocol/values.ts";
import { metricOf, number, ofHex } from "./support.ts";

for await (const line of createInterface({ input: process.stdin })) {
  const given = JSON.parse(line);
  const metric = metricOf(given);
  const stream = ofHex(given.stream);
  const x =
    metric.type !== "mean"
      ? BigInt(given.value)
      : typeof given.value === "number"
        ? inputOf(metric, given.value)
        : placeOf(number(given.value), metric.lower, metric.upper);
  const payload = hex(randomize(metric, x, stream.take));
  const holds = keepsEpsilon(metric.mechanism, metric.parameters, sizeOf(metric), metric.epsilon);
  console.log(JSON.stringify({ payload, used: stream.used, bytes: payload.length / 2, holds }));
}
