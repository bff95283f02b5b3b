/** Opening: the other side of sealing, for the test kit. No device opens a report. */

import { type Bytes } from "./bytes.ts";
import { schedule } from "./seal.ts";

const ENC = 32;

/** The plaintext of a sealed report. Throws if it does not open. */
export const open = async (privateKey: CryptoKey, publicKey: Bytes, info: Bytes, sealed: Bytes): Promise<Bytes> => {
  const enc = sealed.slice(0, ENC);
  const other = await crypto.subtle.importKey("raw", enc, "X25519", true, []);
  const shared = new Uint8Array(await crypto.subtle.deriveBits({ name: "X25519", public: other }, privateKey, 256));
  const [raw, iv] = await schedule(shared, enc, publicKey, info);
  const key = await crypto.subtle.importKey("raw", raw, "AES-GCM", false, ["decrypt"]);
  return new Uint8Array(await crypto.subtle.decrypt({ name: "AES-GCM", iv }, key, sealed.slice(ENC)));
};
