/** The vectors that every implementation must agree on. tests/vectors/README.md says what each file holds. */

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";

import { ACTIONS, delivered, isPointless } from "../src/protocol/answers.ts";
import { isOnIn, keyOf, readEnvelope, verify } from "../src/protocol/bundle.ts";
import { hex, unhex, utf8 } from "../src/protocol/bytes.ts";
import { canonical, parseCanonical } from "../src/protocol/canonical.ts";
import { readCodebook } from "../src/protocol/codebook.ts";
import * as draws from "../src/protocol/draws.ts";
import { ofDouble } from "../src/protocol/fraction.ts";
import { keepsEpsilon } from "../src/protocol/mechanisms/base.ts";
import { MECHANISMS } from "../src/protocol/mechanisms/registry.ts";
import { readParameters, sizeOf } from "../src/protocol/metric.ts";
import { endOf, isLength, isPeriod, periodOf, startOf } from "../src/protocol/period.ts";
import { reduce, reducedValue } from "../src/protocol/reduce.ts";
import { seal } from "../src/protocol/seal.ts";
import { type Value, placeOf, randomize, taken } from "../src/protocol/values.ts";
import { inRequests, plaintext, report, sealInfo, upload } from "../src/protocol/wire.ts";
import { PROBLEM } from "../src/generated/refusals.ts";
import { opened } from "./open.ts";
import { type Any, answerOf, fromHexFloat, metricOf, number, ofHex, refusal, vectors } from "./support.ts";

test("canonical.json: documents have one spelling", async () => {
  const { documents, texts } = vectors("canonical.json");
  for (const { document, canonical: spelled } of documents) assert.equal(canonical(document), spelled);
  for (const given of texts) {
    const text = new TextDecoder("latin1").decode(unhex(given.hex));
    assert.equal(await refusal(() => parseCanonical(text)), given.canonical ? null : "", given.shown);
  }
});

const outline = (index: number, length: number, grace: number): Any => {
  const end = endOf(index, length);
  return { index, start: startOf(index, length), end, closes_at: end + grace };
};

test("periods.json: a time lies in its period", () => {
  const { times, periods, lengths } = vectors("periods.json");
  for (const given of times) {
    let found = null;
    try {
      found = outline(periodOf(given.milliseconds / 1000, given.seconds), given.seconds, given.grace);
    } catch {
      // no period
    }
    assert.deepEqual(found, given.period, JSON.stringify(given));
  }
  for (const { seconds, index, grace, period } of periods)
    assert.deepEqual(isPeriod(index, seconds) ? outline(index, seconds, grace) : null, period);
  for (const { seconds, start_of_period_0: start } of lengths)
    assert.equal(isLength(seconds) ? startOf(0, seconds) : null, start, `length ${seconds}`);
});

const DRAWS: Record<string, (take: draws.Take, a: bigint[], list: bigint[]) => unknown> = {
  bits: (take, [n]) => draws.bits(take, Number(n)),
  below: (take, [n]) => draws.below(take, n!),
  coin: (take, [a, b]) => draws.coin(take, a!, b!),
  // The argument is the running sums.
  pick: (take, _, sums) => draws.pick(take, sums.map((sum, i) => sum - (sums[i - 1] ?? 0n))),
  coin_exp: (take, [a, b]) => draws.coinExp(take, a!, b!),
  discrete_laplace: (take, [scale, rate]) => draws.discreteLaplace(take, scale!, rate!),
  coins: (take, [n, a, places]) => draws.coins(take, Number(n), a!, Number(places)),
  subset: (take, [n, k]) => draws.subset(take, Number(n), Number(k)),
  subset_bits: (take, [n, k]) => draws.subsetBits(take, Number(n), Number(k)),
};

test("draws.json: each draw takes its bits and gives its result", () => {
  for (const [i, given] of vectors("draws.json").entries()) {
    const stream = ofHex(given.stream);
    const lists = given.arguments.filter(Array.isArray).flat().map(BigInt);
    const numbers = given.arguments.filter((one: Any) => !Array.isArray(one)).map(BigInt);
    const made = DRAWS[given.draw]!(stream.take, numbers, lists);
    const said = Array.isArray(made) ? made.map(String) : typeof made === "boolean" ? made : String(made);
    assert.deepEqual(said, given.result, `${i}: ${given.draw}`);
    assert.ok(stream.done, `${i}: ${given.draw} takes another number of bytes`);
  }
});

test("hpke.json: what is sealed opens, and its bytes are exact", async () => {
  const data = vectors("hpke.json");
  const info = sealInfo(data.metric, data.key);
  assert.equal(hex(info), data.info);
  for (const sealed of data.sealed) assert.equal(opened(data.private_key, info, unhex(sealed)), data.plaintext);
  const fresh = [0, 1].map(() => seal(unhex(data.public_key), info, unhex(data.plaintext)));
  const [one, two] = await Promise.all(fresh);
  assert.notDeepEqual(one, two);
  for (const sealed of [one!, two!]) assert.equal(opened(data.private_key, info, sealed), data.plaintext);
  for (const given of data.exact) {
    const about = sealInfo(given.metric, given.key);
    const sealed = await seal(unhex(given.public_key), about, unhex(given.plaintext), unhex(given.ephemeral_private_key));
    assert.equal(hex(sealed), given.sealed);
    assert.equal(hex(about), given.info);
  }
  for (const point of data.public_keys_of_low_order)
    assert.equal(await refusal(() => seal(unhex(point), utf8(""), utf8(""))), "", point);
});

test("wire.json: reports, plaintexts and uploads", () => {
  const data = vectors("wire.json");
  for (const given of data.reports) {
    assert.equal(hex(plaintext(given.period, unhex(given.nonce), unhex(given.payload))), given.plaintext);
    assert.equal(hex(report(given.metric, given.period, given.key, unhex(given.sealed))), given.report);
  }
  for (const given of data.uploads) assert.equal(hex(upload(given.reports.map(unhex))), given.upload);
  for (const given of data.long_reports) {
    if (given.upload_sha256 === null) continue;
    const long = new Uint8Array(given.bytes);
    long.set(unhex(given.start));
    assert.equal(createHash("sha256").update(upload([long])).digest("hex"), given.upload_sha256);
  }
  for (const given of data.requests.cases) {
    const sizes = given.sizes.flatMap(([size, count]: [number, number]) => Array<number>(count).fill(size));
    assert.deepEqual(inRequests(sizes), given.requests);
  }
});

test("refusals.json: names and actions", () => {
  const data = vectors("refusals.json");
  assert.deepEqual([...ACTIONS.keys()].sort(), data.map((given: Any) => given.name).sort());
  for (const given of data) {
    assert.equal(ACTIONS.get(given.name), given.action);
    assert.equal(PROBLEM + given.name, given.type);
  }
});

test("answers.json: answers mean what they say", async () => {
  for (const given of vectors("answers.json")) {
    const answers = [...given.answers];
    const sizes: number[] = [];
    const places = Array.from({ length: given.reports }, (_, i) => i);
    const result = await delivered(places, async (some) => {
      sizes.push(some.length);
      return answerOf(answers.shift());
    });
    const actions = places.map((i) => (result.found.get(i) === "durable" ? "done" : result.found.get(i)));
    assert.deepEqual(actions, given.verdicts.map((verdict: Any) => verdict.action), given.what);
    assert.deepEqual([sizes, result.wait, isPointless(result)], [given.requests, given.retry_after, given.stop], given.what);
  }
});

test("reducers.json: reducers keep what they should", () => {
  const duchi = { epsilon: "1", parameters: { keep: String(3n << 62n) }, mechanism: "duchi" };
  for (const [i, given] of vectors("reducers.json").entries()) {
    const stream = ofHex(given.stream);
    const doubles = given.of === "doubles";
    const metric = metricOf({ ...duchi, domain: { bounds: given.bounds ?? ["0", "1"] } });
    let state;
    const after = [];
    for (const value of given.values) {
      state = reduce(given.reduce, state, doubles ? taken(metric, fromHexFloat(value)) : (value as Value), stream.take);
      state = JSON.parse(JSON.stringify(state));
      after.push({ count: state.n, value: reducedValue(given.reduce, state) });
    }
    const expected = given.after.map((one: Any) => ({ ...one, value: doubles ? fromHexFloat(one.value) : one.value }));
    // The sign of a zero does not count.
    const plain = (list: Any[]): Any[] => list.map((one) => ({ ...one, value: one.value === 0 ? 0 : one.value }));
    assert.deepEqual(plain(after.slice(-expected.length)), plain(expected), `${i}: ${given.reduce} of ${given.of}`);
  }
});

test("codebook.json: ids follow from compiled codebooks", async () => {
  for (const given of vectors("codebook.json")) {
    const page = await readCodebook(JSON.parse(given.compiled), false);
    assert.equal(page.id, given.codebook_id);
    const ids = Object.fromEntries([...page.metrics.values()].map((metric) => [metric.name, metric.id]));
    assert.deepEqual(ids, Object.fromEntries(given.metrics.map((metric: Any) => [metric.name, metric.id])));
    assert.equal(page.refused.size, 0);
  }
});

test("received.json: a device uses the metrics that it understands", async () => {
  for (const given of vectors("received.json")) {
    let found: Any = { refused: "whole" };
    const whole = await refusal(async () => {
      const page = await readCodebook(JSON.parse(given.compiled), false);
      const used = Object.fromEntries([...page.metrics.values()].map((metric) => [metric.name, metric.id]));
      found = { refused: [...page.refused.keys()].sort(), used };
    });
    assert.equal(whole !== null, given.refused === "whole", given.what);
    assert.deepEqual(found.refused, given.refused, given.what);
    if (whole === null) assert.deepEqual(found.used, given.used ?? {}, given.what);
  }
});

test("claims.json: claims hold up to their border and no further", async () => {
  for (const [i, given] of vectors("claims.json").entries()) {
    const refused = await refusal(() => {
      const mechanism = MECHANISMS.get(given.mechanism)!;
      const parameters = readParameters(given.mechanism, given.parameters);
      const size = sizeOf(metricOf({ ...given, parameters: given.parameters }));
      if (!keepsEpsilon(mechanism, parameters, size, number(given.epsilon))) throw new Error("spends too much");
    }).catch(() => "spends too much");
    assert.equal(refused === null, given.holds, `${i}: ${given.mechanism}, epsilon ${given.epsilon}`);
  }
});

test("bundle.json: a bundle is accepted, or refused for its reason", async () => {
  const data = vectors("bundle.json");
  const envelope = unhex(data.bundle);
  const accepted = await verify(envelope, [data.trust], data.verifies_at);
  assert.deepEqual([accepted.sequence, accepted.digest], [data.sequence, data.body_sha256]);
  for (const [period, key] of Object.entries(data.key_of_period))
    assert.equal(keyOf(accepted, Number(period))?.id ?? null, key);
  assert.equal(await refusal(() => verify(envelope, [data.trust], data.expired_at)), "ExpiredBundle");
  for (const given of data.cases) {
    const text = given.bytes ? unhex(given.bytes) : utf8(given.text.replaceAll("~", "a".repeat(given.letters ?? 0)));
    const seen = given.seen ? { sequence: given.seen.sequence, digest: given.seen.body_sha256 } : undefined;
    assert.equal(await refusal(() => verify(text, given.trust, given.clock, seen)), given.error, given.what);
    if (given.error !== null) continue;
    const bundle = await readEnvelope(text, given.trust);
    assert.deepEqual([bundle.sequence, bundle.digest], [given.sequence, given.body_sha256], given.what);
    for (const [period, key] of Object.entries(given.key_of_period))
      assert.equal(keyOf(bundle, Number(period))?.id ?? null, key, `${given.what}: key of ${period}`);
    for (const [period, metrics] of Object.entries(given.metrics_of_period)) {
      const entry = bundle.entries.findLast(({ first }) => first <= Number(period));
      const on = entry && Object.fromEntries([...entry.enabled.keys()].map((id) => [id, isOnIn(bundle, Number(period), id)]));
      assert.deepEqual(on ?? null, metrics, `${given.what}: metrics of ${period}`);
    }
  }
});

test("randomizer.json: from value and stream follows the payload", () => {
  for (const [i, given] of vectors("randomizer.json").entries()) {
    const metric = metricOf(given);
    const size = metric.mechanism.bytes(metric.parameters, sizeOf(metric));
    for (const [j, decided] of given.decisions.entries()) {
      const stream = ofHex(decided.stream);
      const x =
        metric.type === "mean" ? placeOf(number(decided.value), metric.lower, metric.upper) : BigInt(decided.value);
      const payload = randomize(metric, x, stream.take);
      assert.equal(hex(payload), decided.payload, `${i}.${j}: ${given.mechanism} of ${decided.value}`);
      assert.ok(stream.done && payload.length === size, `${i}.${j}: ${given.mechanism} of ${decided.value}`);
    }
  }
});

test("a double is an exact fraction", () => {
  assert.deepEqual(ofDouble(0.1), [3602879701896397n, 36028797018963968n]);
  assert.deepEqual(ofDouble(5e-324), [1n, 1n << 1074n]);
  assert.deepEqual(ofDouble(-Number.MAX_VALUE), [-(2n ** 1024n - 2n ** 971n), 1n]);
});
