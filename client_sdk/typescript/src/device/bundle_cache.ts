/** The bundle that this device keeps: read at the start, and fetched again when it is stale. */

import { LARGEST_ENVELOPE } from "../generated/limits.ts";
import { BUNDLE_PATH } from "../generated/wire.ts";
import { retryAfter } from "../protocol/answers.ts";
import { type Bundle, type Seen, checkNewest, readEnvelope, verify } from "../protocol/bundle.ts";
import { type Bytes, sha256 } from "../protocol/bytes.ts";
import { type Json } from "../protocol/canonical.ts";
import { readCodebook } from "../protocol/codebook.ts";
import { below } from "../protocol/draws.ts";
import { Refused } from "../protocol/refused.ts";
import { asked } from "./cool_down.ts";
import { type Device, type Pin, aboutOf, note, write } from "./device.ts";
import { refusalOf } from "./limits.ts";
import { request } from "./send.ts";
import { rowsOf } from "./storage.ts";

const BUNDLE = "~bundle";

const latin1 = (bytes: Bytes): string => new TextDecoder("latin1").decode(bytes);
const ofLatin1 = (text: string): Bytes => Uint8Array.from(text, (char) => char.charCodeAt(0));

const seenOf = (d: Device): Seen | undefined => {
  const { sequence, digest } = aboutOf(d.rows);
  return sequence === undefined ? undefined : { sequence, digest: digest! };
};

const trusted = (d: Device): readonly string[] | undefined => {
  const { signer } = aboutOf(d.rows);
  return d.anchors ?? (signer === undefined ? undefined : [signer]);
};

const refuse = (d: Device, error: unknown): void => {
  if (!(error instanceof Refused)) throw error;
  d.count("bundle:" + error.error);
};

const use = (d: Device, bundle: Bundle): void => {
  d.bundle = bundle;
  for (const { page } of bundle.entries) {
    if (page) d.pages.set(page.id, page);
    const refusal = page && refusalOf(page, d.limits);
    if (!page || refusal) d.count("codebook:" + (refusal ?? "unreadable"));
    for (let i = page?.refused.size ?? 0; i > 0; i--) d.count("codebook:metric-refused");
  }
};

/** Use the kept bundle, verified again, and the codebooks of all pins. Other tabs may have kept another one. */
export const load = async (d: Device): Promise<void> => {
  const { digest } = aboutOf(d.rows);
  if (digest && digest !== d.bundle?.digest)
    try {
      const bundle = await readEnvelope(ofLatin1((await d.storage.long(BUNDLE))!), trusted(d));
      checkNewest(bundle, seenOf(d));
      use(d, bundle);
    } catch (error) {
      d.bundle = undefined;
      refuse(d, error);
    }
  for (const [, { page }] of rowsOf<Pin>(d.rows, "pin ")) {
    if (d.pages.has(page)) continue;
    const text = await d.storage.long("~page " + page);
    if (text === undefined) continue;
    const read = readCodebook(JSON.parse(text) as Json);
    d.pages.set(page, await read.catch((error: unknown) => (error instanceof Refused ? null : Promise.reject(error as Error))));
  }
};

/** Whether there is no need to ask for a newer bundle. With `spread`, there is none until the timer's random time. */
export const isFresh = (d: Device, spread = false): boolean => {
  const { fetched = 0, spread: most = 0, digest } = aboutOf(d.rows);
  const now = d.clock();
  const { bundle } = d;
  return (
    !!bundle &&
    !d.outdated &&
    digest === bundle.digest &&
    fetched <= now &&
    now < Math.min(fetched + bundle.maxAge + (spread ? most / 1000 : 0), bundle.expires)
  );
};

/** When the timer asks for a newer bundle. */
export const refreshAt = (d: Device): number => {
  const { fetched = 0, spread = 0 } = aboutOf(d.rows);
  return fetched + (d.bundle?.maxAge ?? 0) + spread / 1000;
};

/** Nothing is sent without a bundle, by an expired one, or after one was refused. */
export const maySend = (d: Device): boolean => !!d.bundle && d.clock() < d.bundle.expires && !d.refused;

/** What is noted with each accepted bundle, and with each answer that it is the newest. */
const fetchedNow = (d: Device, bundle: Bundle, now: number): { fetched: number; spread: number } => ({
  fetched: now,
  spread: Number(below(d.coins("refresh", "", Math.floor(now)), BigInt(bundle.longestSpread + 1))),
});

const accept = async (d: Device, envelope: Bytes, now: number): Promise<void> => {
  for (;;) {
    const seen = seenOf(d);
    const bundle = await verify(envelope, trusted(d), now, seen);
    const isKept = await write(d, (rows) => {
      const { sequence, digest } = aboutOf(rows);
      // Another tab has accepted a bundle meanwhile: judge this one again, against that one.
      if (sequence !== seen?.sequence || digest !== seen?.digest) return false;
      rows.set(BUNDLE, latin1(envelope));
      note(rows, { sequence: bundle.sequence, digest: bundle.digest, signer: bundle.signer, ...fetchedNow(d, bundle, now) });
      return true;
    });
    if (isKept) return bundle.digest === d.bundle?.digest ? undefined : use(d, bundle);
  }
};

/** Ask for a newer bundle if this one is stale. False: nothing may be settled now, as what was served is refused. */
export const refresh = async (d: Device, spread: boolean): Promise<boolean> => {
  if (isFresh(d, spread)) return true;
  d.fetchFailed = true;
  const { bundle } = d;
  const now = d.clock();
  const isUsable = bundle && now < bundle.expires && bundle.digest === aboutOf(d.rows).digest;
  const kept = isUsable ? await d.storage.long(BUNDLE) : undefined;
  // The tag is made from the bundle's own bytes: one that a service gave could be a name for this device.
  const tag = kept && `"${(await sha256(ofLatin1(kept))).slice(0, 32)}"`;
  const answer = await request(d, "GET", BUNDLE_PATH, tag ? { "If-None-Match": tag } : {});
  if (answer?.status === 304 && tag) await write(d, (rows) => note(rows, fetchedNow(d, bundle!, now)));
  else if (answer?.status === 200 && answer.body.length <= LARGEST_ENVELOPE)
    try {
      await accept(d, answer.body, now);
    } catch (error) {
      refuse(d, error);
      d.refused = true;
      return false;
    }
  else {
    d.count("bundle:CannotReach");
    await asked(d, "steady", retryAfter(answer));
    return true;
  }
  d.outdated = d.fetchFailed = d.refused = false;
  return true;
};
