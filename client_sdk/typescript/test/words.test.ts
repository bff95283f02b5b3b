/** Words for people: what they read of a preview and a ledger. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { Device } from "../src/testing.ts";
import { explain, ledgerInWords, previewInWords, reportInWords } from "../src/words.ts";
import { type Any, vectors } from "./support.ts";

const codebook = JSON.parse(vectors("codebook.json")[0].compiled);

test("a preview and a ledger say in words what they hold", async () => {
  const device = await Device.of(codebook);
  for (const metric of codebook.metrics)
    device.client.record(metric.name, metric.type === "boolean" ? true : metric.type === "category" ? metric.values[0] : 1);
  const before = previewInWords(await device.client.preview());
  assert.match(before, /Values on this device, to be randomized: [1-9]/);
  assert.match(before, /What is collected: \d+\n {2}consent_asked \(switched off\): /);
  await device.client.flush({ timeout: 0 });
  const after = previewInWords(await device.client.preview());
  assert.match(after, /at most \d+(\.\d+)? times as likely as from any other value/);
  const ledger = ledgerInWords(await device.client.ledger());
  assert.match(ledger, /^Charged today: epsilon [\d.]+ of 8\. Ever: [\d.]+\./);
  assert.match(ledger, /reported, epsilon/);
  await device.close();
});

test("a report says its face, or its bytes", () => {
  const question = (name: string, more: Any = {}): Any => ({ type: "category", values: ["a", "b", "c"], epsilon: "1", mechanism: { name, parameters: {} }, ...more });
  assert.equal(reportInWords(question("krr"), "02"), '"c"');
  assert.equal(reportInWords(question("oue"), "05"), 'yes to "a", "c", no to all others');
  assert.equal(reportInWords(question("oue"), "00"), "no to every value");
  assert.equal(reportInWords(question("rr", { type: "boolean", values: undefined }), "01"), "true");
  assert.equal(reportInWords(question("olh"), "0102"), "the bytes 0102");
  assert.equal(reportInWords(null, "01"), "unknown");
  const edges = ["0", "1", "2.5", "10", "100"];
  assert.equal(reportInWords(question("subset", { type: "distribution", values: undefined, edges, mechanism: { name: "subset", parameters: { count: 2 } } }), "0c"), "yes to 2.5 to 10, 10 to 100, no to all others");
  assert.equal(reportInWords(question("ladder", { type: "distribution", values: undefined, edges }), "0c"), "the bytes 0c");
});

test("a counter is explained by the words of the Python SDK", () => {
  assert.match(explain("dropped:period-closed")!, /take a longer grace/);
  assert.equal(explain("recorded"), undefined);
});
