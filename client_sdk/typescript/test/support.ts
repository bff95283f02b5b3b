/** What several tests share: the vectors, streams of random bytes, and doubles as C writes them. */

import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";

import { type Answer } from "../src/protocol/answers.ts";
import { type Bytes, unhex, utf8 } from "../src/protocol/bytes.ts";
import { type Take } from "../src/protocol/draws.ts";
import { type Fraction, fraction } from "../src/protocol/fraction.ts";
import { type Parameters } from "../src/protocol/mechanisms/base.ts";
import { MECHANISMS } from "../src/protocol/mechanisms/registry.ts";
import { type Metric, readParameters } from "../src/protocol/metric.ts";
import { Refused } from "../src/protocol/refused.ts";

// eslint-disable-next-line @typescript-eslint/no-explicit-any
export type Any = any;

const FOLDER = new URL("../../../tests/vectors/v1/", import.meta.url);

export const vectors = (name: string): Any => JSON.parse(readFileSync(new URL(name, FOLDER), "utf8"));

/** Random bits of a case; all of them must be taken, and no more. */
export class Stream {
  readonly data: Bytes;
  used = 0;

  constructor(data: Bytes) {
    this.data = data;
  }

  readonly take: Take = (n) => {
    if (this.used + n > this.data.length) throw new Error("the stream ends");
    return this.data.subarray(this.used, (this.used += n));
  };

  get done(): boolean {
    return this.used === this.data.length;
  }
}

export const ofHex = (text: string): Stream => new Stream(unhex(text));

/** The stream that a trace derives from a label, made as far as it is read. */
export const streamOf = (label: string): Take => {
  let rest = Buffer.alloc(0);
  let block = 0;
  return (n) => {
    while (rest.length < n) rest = Buffer.concat([rest, createHash("sha256").update(`${label}:${block++}`).digest()]);
    const taken = Uint8Array.from(rest.subarray(0, n));
    rest = rest.subarray(n);
    return taken;
  };
};

/** A fraction or decimal as text. */
export const number = (text: string): Fraction => {
  const [above, under = "1"] = text.split("/");
  const [whole, places = ""] = above!.split(".");
  return fraction(BigInt(whole! + places), 10n ** BigInt(places.length) * BigInt(under));
};

/** A double as C's %a writes it. */
export const fromHexFloat = (text: string): number => {
  if (/inf/.test(text)) return text.startsWith("-") ? -Infinity : Infinity;
  const [, sign, whole, places = "", power] = /^(-?)0x([01])\.?([0-9a-f]*)p([+-]\d+)$/.exec(text)!;
  let value = parseInt(whole! + places, 16);
  let exponent = Number(power) - 4 * places.length;
  for (; exponent > 0; exponent--) value *= 2;
  for (; exponent < 0; exponent++) value /= 2;
  return sign ? -value : value;
};

/** The name of the error by which this is refused; null if it is not. */
export const refusal = async (act: () => unknown): Promise<string | null> => {
  try {
    await act();
  } catch (error) {
    if (error instanceof Refused) return error.error;
    throw error;
  }
  return null;
};

/** A metric that has no more than a mechanism. */
export const metricOf = (test: Any): Metric => {
  const bounds = (test.domain.bounds as string[] | undefined)?.map(number);
  return {
    type: bounds ? "mean" : "category",
    epsilon: number(test.epsilon),
    mechanism: MECHANISMS.get(test.mechanism)!,
    parameters: readParameters(test.mechanism, test.parameters) as Parameters,
    values: Array.from({ length: test.domain.size ?? 0 }, (_, i) => String(i)),
    other: null,
    missing: null,
    lower: bounds?.[0] ?? [0n, 1n],
    upper: bounds?.[1] ?? [1n, 1n],
    edges: [],
    document: { bounds: test.domain.bounds ?? null },
  } as unknown as Metric;
};

/** An answer as the vectors write it. */
export const answerOf = (given: Any): Answer | undefined =>
  given === null
    ? undefined
    : {
        status: given.status,
        type: given.type ?? "",
        retryAfter: given.retry_after ?? "",
        body: utf8(given.body.replace("~", "a".repeat(given.letters ?? 0))),
      };
