/** The signed bundle: verified, read, and what follows from it. */

import { BUNDLE_FORMAT, LABEL_BUNDLE, LARGEST_ENVELOPE, LARGEST_PERIOD, LONGEST, SPREAD } from "../generated/limits.ts";
import { SUITE } from "../generated/wire.ts";
import { type Bytes, concat, fromBase64url, fromBigEndian, sha256, utf8 } from "./bytes.ts";
import { type Json, type Members, isId, isInteger, isObject, isSorted, isText, parseCanonical } from "./canonical.ts";
import { type Page, readCodebook } from "./codebook.ts";
import { type Metric } from "./metric.ts";
import { isLength } from "./period.ts";
import { Refused, require } from "./refused.ts";

export interface Key {
  readonly id: number;
  readonly suite: string;
  readonly publicKey: Bytes;
  readonly first: number;
  readonly last: number;
  readonly state: string;
}

/** One codebook of a bundle, from a period on. */
interface Entry {
  readonly first: number;
  /** Undefined if this device refuses it. */
  readonly page: Page | undefined;
  /** All its metrics by id, with whether they are enabled. */
  readonly enabled: ReadonlyMap<string, boolean>;
}

export interface Bundle {
  readonly sequence: number;
  readonly digest: string;
  readonly signer: string;
  readonly expires: number;
  readonly maxAge: number;
  readonly length: number;
  /** Milliseconds. */
  readonly longestSpread: number;
  readonly entries: readonly Entry[];
  readonly keys: readonly Key[];
  readonly off: readonly string[];
}

/** The newest sequence ever accepted, and SHA-256 of its body. */
export interface Seen {
  readonly sequence: number;
  readonly digest: string;
}

const entryOf = (bundle: Bundle, period: number): Entry | undefined =>
  bundle.entries.findLast((entry) => entry.first <= period);

/** The codebook of a period: the last one that begins by then, if it is readable. */
export const pageOf = (bundle: Bundle, period: number): Page | undefined => entryOf(bundle, period)?.page;

/** The newest codebook, without pages that have no metrics: these only end the one before them. */
export const newestPage = (bundle: Bundle): Page | undefined =>
  bundle.entries.findLast((entry) => entry.enabled.size)?.page;

/** Whether a metric is on in a period. Undefined if the period's codebook lacks it. */
export const isOnIn = (bundle: Bundle, period: number, id: string): boolean | undefined => {
  const enabled = entryOf(bundle, period)?.enabled.get(id);
  return enabled && !bundle.off.includes(id);
};

export const isOn = (bundle: Bundle, metric: Metric): boolean => metric.enabled && !bundle.off.includes(metric.id);

const covers = (key: Key, period: number): boolean => key.first <= period && period <= key.last;

/** The key of a period, if this device can use it. */
export const keyOf = (bundle: Bundle, period: number): Key | undefined =>
  bundle.keys.find((key) => key.state !== "revoked" && key.suite === SUITE && covers(key, period));

export const isRevoked = (bundle: Bundle, period: number, id: number): boolean =>
  bundle.keys.some((key) => key.state === "revoked" && key.id === id && covers(key, period));

const FIELD = 2n ** 255n - 19n;
const LOW_ORDER = [
  0n,
  1n,
  FIELD - 1n,
  39382357235489614581723060781553021112529911719440698176882885853963445705823n,
  325606250916557431795983626356110631294008115727848805560023387167927233504n,
];

const isPeriodIndex = (value: unknown): value is number => isInteger(value, 0, LARGEST_PERIOD);

const readKey = (k: Json): Key => {
  require(isObject(k) && isInteger(k.id, 0, 255) && isText(k.suite) && isText(k.public_key), "a key");
  const publicKey = fromBase64url(k.public_key);
  if (k.suite === SUITE) {
    require(publicKey.length === 32, "a public key has another length");
    const point = fromBigEndian(publicKey.slice().reverse()) % 2n ** 255n % FIELD;
    require(!LOW_ORDER.includes(point), "a public key has low order");
  }
  require(isPeriodIndex(k.first_period) && isPeriodIndex(k.last_period), "periods of a key");
  require(k.first_period <= k.last_period, "periods of a key");
  require(["pending", "active", "revoked"].includes(k.state as string), "state of a key");
  return { id: k.id, suite: k.suite, publicKey, first: k.first_period, last: k.last_period, state: k.state as string };
};

/** What the bundle itself asks of a codebook. */
const checkOutline = (document: Json | undefined, collection: string): Members => {
  require(isObject(document) && isObject(document.collection), "a codebook");
  const c = document.collection;
  require(c.name === collection && isLength(c.period), "name or period of a codebook");
  require(isInteger(c.grace, 1, LONGEST) && isInteger(c.forward_horizon, 1, LONGEST), "grace or forward_horizon");
  const { metrics } = document;
  require(Array.isArray(metrics), "metrics");
  for (const m of metrics) {
    require(isObject(m) && isId(m.id) && isText(m.name), "a metric");
    require(isInteger(m.report_bytes, 1) && isInteger(m.min_batch, 2) && typeof m.enabled === "boolean", "a metric");
  }
  for (const member of ["id", "name"]) {
    require(new Set(metrics.map((m) => (m as Members)[member])).size === metrics.length, "two metrics are alike");
  }
  return document;
};

/** The body, by rules 6 and 7. */
const readBody = async (text: string, digest: string, signer: string): Promise<Bundle> => {
  const b = parseCanonical(text);
  require(isObject(b) && b.format === BUNDLE_FORMAT && isText(b.collection), "format or collection");
  require(isInteger(b.sequence, 0) && isInteger(b.issued, 0), "sequence or issued");
  require(isInteger(b.expires, b.issued + 1) && isInteger(b.max_age, 0), "expires or max_age");
  require(Array.isArray(b.codebooks) && b.codebooks.length && Array.isArray(b.keys), "codebooks or keys");
  const documents: [first: number, document: Members][] = [];
  for (const entry of b.codebooks) {
    require(isObject(entry) && isPeriodIndex(entry.first_period), "first_period");
    require(!documents.length || documents.at(-1)![0] < entry.first_period, "codebooks are not in order");
    documents.push([entry.first_period, checkOutline(entry.codebook, b.collection)]);
  }
  const collections = documents.map(([, document]) => document.collection as Members);
  const length = collections[0]!.period as number;
  require(collections.every((c) => c.period === length), "two lengths of periods");
  const keys = b.keys.map(readKey);
  require(new Set(keys.map((key) => key.id)).size === keys.length, "two keys have one id");
  const usable = keys.filter((key) => key.state !== "revoked").sort((one, two) => one.first - two.first);
  require(usable.every((key, i) => i === 0 || usable[i - 1]!.last < key.first), "two keys cover a period");
  let off: string[] = [];
  if (Object.hasOwn(b, "off")) {
    require(Array.isArray(b.off) && b.off.length && b.off.every(isId) && isSorted(b.off as string[]), "off");
    off = b.off as string[];
  }
  const entries: Entry[] = [];
  for (const [first, document] of documents) {
    const metrics = document.metrics as Members[];
    entries.push({
      first,
      page: await readCodebook(document).catch((error: unknown) => {
        if (error instanceof Refused) return undefined;
        throw error;
      }),
      enabled: new Map(metrics.map((m) => [m.id as string, m.enabled as boolean])),
    });
  }
  // A codebook without metrics has no reports to spread fetches over.
  const graces = collections.filter((_, i) => (documents[i]![1].metrics as Json[]).length).map((c) => c.grace as number);
  const longestSpread = Math.min(SPREAD, ...graces.map((grace) => 250 * grace));
  return {
    sequence: b.sequence,
    digest,
    signer,
    expires: b.expires,
    maxAge: b.max_age,
    length,
    longestSpread,
    entries,
    keys,
    off,
  };
};

const refuse = (error: string, why: string): never => {
  throw new Refused(why, error);
};

const LINE = 10;

/** A bundle in an envelope, by rules 1 to 7. Without anchors any signer will do. */
export const readEnvelope = async (envelope: Bytes, anchors: readonly string[] | undefined): Promise<Bundle> => {
  const malformed = (why: string): never => refuse("MalformedBundle", why);
  if (envelope.length > LARGEST_ENVELOPE) malformed("the envelope is too large");
  const first = envelope.indexOf(LINE);
  const end = first < 0 ? envelope.length : first;
  const second = envelope.indexOf(LINE, end + 1);
  const secondEnd = second < 0 ? envelope.length : second;
  const text = (from: number, to: number): string => new TextDecoder("latin1").decode(envelope.subarray(from, to));
  if (text(0, end) !== BUNDLE_FORMAT) malformed("not an envelope");
  const form = /^(ed25519:([\w-]{43})) ([\w-]{86})$/.exec(text(end + 1, secondEnd)) ?? malformed("the second line");
  let parts: readonly [Bytes, Bytes];
  try {
    parts = [fromBase64url(form[2]!), fromBase64url(form[3]!)];
  } catch {
    return malformed("key or signature");
  }
  const signer = form[1]!;
  if (anchors && !anchors.includes(signer)) refuse("UntrustedBundle", "the signer is " + signer);
  const body = envelope.slice(secondEnd + 1);
  const fits = crypto.subtle
    .importKey("raw", parts[0], "Ed25519", false, ["verify"])
    .then((key) => crypto.subtle.verify("Ed25519", key, parts[1], concat(utf8(LABEL_BUNDLE), body)))
    .catch((error: unknown) => (error instanceof Error && error.name === "NotSupportedError" ? Promise.reject(error) : false));
  if (!(await fits)) refuse("BadSignature", "the signature does not fit");
  try {
    return await readBody(text(secondEnd + 1, envelope.length), await sha256(body), signer);
  } catch (error) {
    if (error instanceof Refused) malformed(error.message);
    throw error;
  }
};

/** Rule 9. */
export const checkNewest = (bundle: Bundle, seen: Seen | undefined): void => {
  if (seen && (bundle.sequence < seen.sequence || (bundle.sequence === seen.sequence && bundle.digest !== seen.digest)))
    refuse("RolledBackBundle", "older than one that was accepted, or another of the same number");
};

/** The bundle in an envelope, if all nine rules hold. */
export const verify = async (
  envelope: Bytes,
  anchors: readonly string[] | undefined,
  now: number,
  seen?: Seen,
): Promise<Bundle> => {
  const bundle = await readEnvelope(envelope, anchors);
  if (now >= bundle.expires) refuse("ExpiredBundle", "the bundle has expired");
  checkNewest(bundle, seen);
  return bundle;
};
