/** Sealing: HPKE base mode (RFC 9180) by WebCrypto, one message, X25519, HKDF-SHA256, AES-128-GCM. */

import { SUITE_NUMBERS } from "../generated/wire.ts";
import { type Bytes, bigEndian, concat, unhex, utf8 } from "./bytes.ts";
import { Refused } from "./refused.ts";

const KEM = concat(utf8("KEM"), unhex(SUITE_NUMBERS.slice(0, 4)));
const WHOLE = concat(utf8("HPKE"), unhex(SUITE_NUMBERS));
const NOTHING = new Uint8Array();
/** What stands before the 32 bytes of an X25519 private key in PKCS 8. */
const PKCS8 = "302e020100300506032b656e04220420";

const extract = async (salt: Bytes, data: Bytes): Promise<Bytes> => {
  // An empty key is as good as one zero byte to HMAC, and not every WebCrypto takes an empty one.
  const key = await crypto.subtle.importKey(
    "raw",
    salt.length ? salt : new Uint8Array(1),
    { name: "HMAC", hash: "SHA-256" },
    false,
    ["sign"],
  );
  return new Uint8Array(await crypto.subtle.sign("HMAC", key, data));
};

const labeledExtract = (suite: Bytes, salt: Bytes, label: string, data: Bytes): Promise<Bytes> =>
  extract(salt, concat(utf8("HPKE-v1"), suite, utf8(label), data));

/** At most 32 bytes, so one block of HKDF is enough. */
const labeledExpand = async (suite: Bytes, prk: Bytes, label: string, about: Bytes, n: number): Promise<Bytes> =>
  (
    await extract(prk, concat(bigEndian(n, 2), utf8("HPKE-v1"), suite, utf8(label), about, bigEndian(1, 1)))
  ).slice(0, n);

const ephemeral = async (given?: Bytes): Promise<CryptoKeyPair> => {
  if (!given) return (await crypto.subtle.generateKey("X25519", true, ["deriveBits"])) as CryptoKeyPair;
  const pkcs8 = concat(unhex(PKCS8), given);
  const privateKey = await crypto.subtle.importKey("pkcs8", pkcs8, "X25519", true, ["deriveBits"]);
  const { kty, crv, x } = await crypto.subtle.exportKey("jwk", privateKey);
  const publicKey = await crypto.subtle.importKey("jwk", { kty, crv, x } as JsonWebKey, "X25519", true, []);
  return { privateKey, publicKey };
};

/** The key and the nonce of the one message, from what both sides share. */
export const schedule = async (shared: Bytes, enc: Bytes, publicKey: Bytes, info: Bytes): Promise<[raw: Bytes, iv: Bytes]> => {
  const secret = await labeledExpand(
    KEM,
    await labeledExtract(KEM, NOTHING, "eae_prk", shared),
    "shared_secret",
    concat(enc, publicKey),
    32,
  );
  const about = concat(
    new Uint8Array(1),
    await labeledExtract(WHOLE, NOTHING, "psk_id_hash", NOTHING),
    await labeledExtract(WHOLE, NOTHING, "info_hash", info),
  );
  const prk = await labeledExtract(WHOLE, secret, "secret", NOTHING);
  return [await labeledExpand(WHOLE, prk, "key", about, 16), await labeledExpand(WHOLE, prk, "base_nonce", about, 12)];
};

/** Encapsulated key, then ciphertext. Only a vector gives the ephemeral private key. */
export const seal = async (publicKey: Bytes, info: Bytes, text: Bytes, given?: Bytes): Promise<Bytes> => {
  const pair = await ephemeral(given);
  let shared: Bytes;
  try {
    const other = await crypto.subtle.importKey("raw", publicKey, "X25519", true, []);
    shared = new Uint8Array(
      await crypto.subtle.deriveBits({ name: "X25519", public: other }, pair.privateKey, 256),
    );
  } catch {
    throw new Refused("the public key cannot be used");
  }
  // Most refuse by themselves; the standard asks for it.
  if (shared.every((byte) => byte === 0)) throw new Refused("the public key is of low order");
  const enc = new Uint8Array(await crypto.subtle.exportKey("raw", pair.publicKey));
  const [raw, iv] = await schedule(shared, enc, publicKey, info);
  const key = await crypto.subtle.importKey("raw", raw, "AES-GCM", false, ["encrypt"]);
  return concat(enc, new Uint8Array(await crypto.subtle.encrypt({ name: "AES-GCM", iv }, key, text)));
};
