/** Opening of sealed reports, with Node's own crypto. */

import { createDecipheriv, createHmac, createPrivateKey, createPublicKey, diffieHellman } from "node:crypto";

import { type Bytes, concat, hex, unhex, utf8 } from "../src/protocol/bytes.ts";

const labeled = (suite: Bytes, ...parts: Uint8Array[]): Bytes => concat(utf8("HPKE-v1"), suite, ...parts);
const hmac = (key: Uint8Array, data: Uint8Array): Bytes => Uint8Array.from(createHmac("sha256", key).update(data).digest());

/** The plaintext of a sealed report. */
export const opened = (privateKey: string, info: Bytes, sealed: Bytes): string => {
  const own = createPrivateKey({
    key: Buffer.concat([Buffer.from("302e020100300506032b656e04220420", "hex"), unhex(privateKey)]),
    format: "der",
    type: "pkcs8",
  });
  const publicKey = createPublicKey(own).export({ format: "der", type: "spki" }).subarray(-32);
  const enc = sealed.slice(0, 32);
  const other = createPublicKey({
    key: Buffer.concat([Buffer.from("302a300506032b656e032100", "hex"), enc]),
    format: "der",
    type: "spki",
  });
  const shared = diffieHellman({ privateKey: own, publicKey: other });
  const kem = concat(utf8("KEM"), unhex("0020"));
  const all = concat(utf8("HPKE"), unhex("002000010001"));
  const expand = (suite: Bytes, prk: Bytes, label: string, about: Uint8Array, n: number): Bytes =>
    hmac(prk, concat(Uint8Array.of(0, n), labeled(suite, utf8(label), about), Uint8Array.of(1))).slice(0, n);
  const extract = (suite: Bytes, salt: Uint8Array, label: string, data: Uint8Array): Bytes =>
    hmac(salt, labeled(suite, utf8(label), data));
  const none = new Uint8Array();
  const secret = expand(kem, extract(kem, none, "eae_prk", shared), "shared_secret", concat(enc, publicKey), 32);
  const about = concat(Uint8Array.of(0), extract(all, none, "psk_id_hash", none), extract(all, none, "info_hash", info));
  const prk = extract(all, secret, "secret", none);
  const cipher = createDecipheriv("aes-128-gcm", expand(all, prk, "key", about, 16), expand(all, prk, "base_nonce", about, 12));
  cipher.setAuthTag(sealed.subarray(-16));
  return hex(Buffer.concat([cipher.update(sealed.subarray(32, -16)), cipher.final()]));
};
