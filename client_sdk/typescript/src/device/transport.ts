/** Requests by `fetch` that tell as little as a page can: no cookie, no referrer, no language, no cache, no redirect. */

import { LARGEST_ENVELOPE } from "../generated/limits.ts";
import { concat } from "../protocol/bytes.ts";
import { type Headers, type Transport } from "./device.ts";

const SECONDS = 10;
/** Bytes of a request that may outlive the page. The browser's limit holds for all requests in flight together. */
const KEPT_ALIVE = 48_000;

/** The body of an answer; undefined if it is too long. */
const bodyOf = async (answer: Response): Promise<Uint8Array<ArrayBuffer> | undefined> => {
  const parts: Uint8Array[] = [];
  let size = 0;
  const reader = answer.body?.getReader();
  for (let part = await reader?.read(); part && !part.done; part = await reader!.read()) {
    parts.push(part.value);
    size += part.value.length;
    if (size > LARGEST_ENVELOPE) {
      await reader!.cancel();
      return undefined;
    }
  }
  return concat(...parts);
};

/** A transport to an address. */
export const fetching =
  (address: string, own: Headers = {}): Transport =>
  async (method, path, headers, body) => {
    try {
      const answer = await fetch(address + path, {
        method,
        headers: { "Accept-Language": "*", ...own, ...headers },
        ...(body ? { body, keepalive: body.length < KEPT_ALIVE } : {}),
        cache: "no-store",
        credentials: "omit",
        redirect: "error",
        referrerPolicy: "no-referrer",
        signal: AbortSignal.timeout(SECONDS * 1000),
      });
      const read = await bodyOf(answer);
      const header = (name: string): string => answer.headers.get(name) ?? "";
      return read && { status: answer.status, type: header("content-type"), retryAfter: header("retry-after"), body: read };
    } catch {
      return undefined;
    }
  };
