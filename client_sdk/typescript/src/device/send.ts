/** Send: due reports are sealed, kept as sealed, uploaded, and treated as the answer says. A retry sends the same bytes. */

import { MOST_REPORTS_OF_UPLOAD, REPORTS_PATH, REPORTS_TYPE } from "../generated/wire.ts";
import { type Answer, delivered, isPointless } from "../protocol/answers.ts";
import { type Bytes, fromBase64url, hex, unhex } from "../protocol/bytes.ts";
import { type Lane } from "../protocol/metric.ts";
import { Refused } from "../protocol/refused.ts";
import { seal } from "../protocol/seal.ts";
import { inRequests, plaintext, report, sealInfo, upload } from "../protocol/wire.ts";
import { asked } from "./cool_down.ts";
import { type Device, type Headers, type Waiting, write } from "./device.ts";
import { REPORT, due, pinOf } from "./outbox.ts";

/** A request, if there is consent now. */
export const request = async (d: Device, method: string, path: string, headers: Headers, body?: Bytes): Promise<Answer | undefined> =>
  d.agrees() ? d.transport(method, path, headers, body) : undefined;

/** The report as it is sent; undefined if its period has no key, or one that cannot be used. */
const sealed = async (d: Device, one: Waiting): Promise<Waiting | undefined> => {
  const { key, publicKey } = pinOf(d.rows, one) ?? {};
  if (one.sealed || key === undefined) return one.sealed ? one : undefined;
  try {
    const text = plaintext(one.period, unhex(one.nonce), unhex(one.payload));
    const box = await seal(fromBase64url(publicKey!), sealInfo(one.id, key), text);
    return { ...one, key, sealed: hex(report(one.id, one.period, key, box)) };
  } catch (error) {
    if (error instanceof Refused) return undefined;
    throw error;
  }
};

/** Seal these, on stable storage before a byte leaves. Another tab may have been quicker: a report is sealed once. */
const ready = async (d: Device, some: readonly Waiting[], lane: Lane, hurry: boolean): Promise<Waiting[]> => {
  const made: Waiting[] = [];
  for (const one of some) {
    const found = await sealed(d, one);
    if (found) made.push(found);
  }
  return write(d, (rows) => {
    for (const one of made) {
      const kept: Waiting | undefined = rows.get(REPORT + one.nonce);
      if (kept && !kept.sealed) rows.set(REPORT + one.nonce, one);
    }
    const nonces = new Set(made.map(({ nonce }) => nonce));
    return due(rows, lane, d.clock(), hurry).filter(({ nonce, sealed }) => sealed && nonces.has(nonce));
  });
};

/** Upload the reports of a lane that are due, each once. Whether the shuffler refused a key, and none was asked to wait. */
export const send = async (d: Device, lane: Lane, hurry: boolean): Promise<boolean> => {
  let isOutdated = false;
  const all = due(d.rows, lane, d.clock(), hurry);
  for (let at = 0; at < all.length; at += MOST_REPORTS_OF_UPLOAD) {
    const reports = await ready(d, all.slice(at, at + MOST_REPORTS_OF_UPLOAD), lane, hurry);
    let first = 0;
    for (const size of inRequests(reports.map((one) => one.sealed!.length / 2))) {
      const part = reports.slice(first, (first += size));
      let status: number | undefined;
      const sent = await delivered([...part.keys()], async (places) => {
        const body = upload(places.map((place) => unhex(part[place]!.sealed!)));
        const answer = await request(d, "POST", REPORTS_PATH, { "Content-Type": REPORTS_TYPE }, body);
        status = answer?.status;
        return answer;
      });
      const gone: string[] = [];
      for (const [place, verdict] of sent.found) {
        const name = sent.names.get(place) ?? (status ? "http-" + status : "network");
        if (verdict === "durable" || verdict === "drop") gone.push(REPORT + part[place]!.nonce);
        d.count(verdict === "durable" ? "acknowledged" : (verdict === "drop" ? "dropped:" : "retried:") + name);
        if (verdict === "fetch the bundle") isOutdated = true;
      }
      await write(d, (rows) => gone.forEach((name) => rows.delete(name)));
      await asked(d, lane, sent.wait);
      if (isPointless(sent)) return isOutdated && !sent.wait;
    }
  }
  return isOutdated;
};
