/** Wire format: plaintext, report and upload. */

import { LABEL_REPORT, MOST_BYTES_OF_UPLOAD, MOST_REPORTS_OF_UPLOAD, SUITE_NUMBERS } from "../generated/wire.ts";
import { type Bytes, bigEndian, concat, unhex, utf8 } from "./bytes.ts";

export const plaintext = (period: number, nonce: Uint8Array, payload: Uint8Array): Bytes =>
  concat(bigEndian(period, 4), nonce, payload);

/** What a sealed report is bound to. */
export const sealInfo = (metric: string, key: number): Bytes =>
  concat(utf8(LABEL_REPORT), unhex(metric), unhex(SUITE_NUMBERS), bigEndian(key, 1));

export const report = (metric: string, period: number, key: number, sealed: Uint8Array): Bytes =>
  concat(bigEndian(1, 1), unhex(metric), bigEndian(period, 4), bigEndian(key, 1), sealed);

/** The body of an upload. */
export const upload = (reports: readonly Uint8Array[]): Bytes =>
  concat(...reports.flatMap((one) => [bigEndian(one.length, 2), one]));

/** How reports of these sizes share requests: how many there are in each. A larger report goes alone. */
export const inRequests = (sizes: readonly number[]): number[] => {
  const requests: number[] = [];
  let number = 0;
  let total = 0;
  for (const size of sizes) {
    if (number && (number === MOST_REPORTS_OF_UPLOAD || total + 2 + size > MOST_BYTES_OF_UPLOAD)) {
      requests.push(number);
      number = total = 0;
    }
    number++;
    total += 2 + size;
  }
  return number ? [...requests, number] : requests;
};
