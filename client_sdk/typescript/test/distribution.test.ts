/** Distributions: in which bin a number is, and what is refused of a metric that has bins. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { canonical } from "../src/protocol/canonical.ts";
import { readCodebook } from "../src/protocol/codebook.ts";
import { type Metric, metricId, readMetric } from "../src/protocol/metric.ts";
import { Refused } from "../src/protocol/refused.ts";
import { inputOf } from "../src/protocol/values.ts";
import { type Any, vectors } from "./support.ts";

const documents = vectors("codebook.json").map((given: Any) => JSON.parse(given.compiled));
const all: [collection: Any, metric: Any][] = documents.flatMap((document: Any) =>
  document.metrics.filter((metric: Any) => metric.type === "distribution").map((metric: Any) => [document.collection, metric]),
);
/** One whose mechanism is not for lists of values. */
const [collection, document] = all.find(([, metric]) => metric.mechanism.name === "ladder")!;

/** The metric after a change, with the id that it then has. */
const changed = async (change: Any, own = document): Promise<Metric> => {
  const other = { ...own, ...change };
  other.id = await metricId(other, collection.name, collection.period);
  return readMetric(other, collection.name, collection.period, false);
};

test("a number on an edge is in the bin above it, and numbers outside are in the outer bins", async () => {
  const metric = await changed({});
  const edges = document.edges.map(Number);
  const bins = edges.length - 1;
  assert.equal(inputOf(metric, edges[0]! - 1), 0n);
  assert.equal(inputOf(metric, edges.at(-1)! + 1), BigInt(bins - 1));
  for (let bin = 0; bin < bins; bin++) {
    assert.equal(inputOf(metric, document.edges[bin]), BigInt(bin));
    const between = (edges[bin]! + edges[bin + 1]!) / 2;
    assert.equal(inputOf(metric, between), BigInt(bin));
  }
});

test("edges that do not rise, or are too few, are refused", async () => {
  const { edges } = document;
  await changed({});
  for (const other of [[...edges].reverse(), [edges[0], edges[0], ...edges.slice(2)], edges.slice(0, 2)])
    await assert.rejects(changed({ edges: other }), Refused, canonical(other));
});

test("a mechanism for lists of values only is refused for bins, and one for bins for a list", async () => {
  const page = documents.find((one: Any) => one.metrics.some((metric: Any) => metric.mechanism.name === "krr"));
  const krr = page.metrics.find((metric: Any) => metric.mechanism.name === "krr");
  const parts = { epsilon: "20", mechanism: krr.mechanism, report_bytes: 1 };
  await assert.rejects(changed(parts), /not known for this type/);
  const category = { ...krr, id: "" };
  const other = { ...category, mechanism: document.mechanism, epsilon: document.epsilon };
  other.id = await metricId(other, page.collection.name, page.collection.period);
  await assert.rejects(readMetric(other, page.collection.name, page.collection.period, false), /not known for this type/);
  assert.ok((await readCodebook(page, false)).metrics.has(krr.name));
});
