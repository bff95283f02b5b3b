/** Bytes: joined, as integers, as text, and their SHA-256. */

import { require } from "./refused.ts";

export type Bytes = Uint8Array<ArrayBuffer>;

export const utf8 = (text: string): Bytes => new TextEncoder().encode(text);

export const hex = (bytes: Uint8Array): string => {
  let text = "";
  for (const byte of bytes) text += (byte + 256).toString(16).slice(1);
  return text;
};

export const unhex = (text: string): Bytes => {
  const bytes = new Uint8Array(text.length / 2);
  for (let i = 0; i < bytes.length; i++) bytes[i] = parseInt(text.slice(2 * i, 2 * i + 2), 16);
  return bytes;
};

export const concat = (...parts: readonly Uint8Array[]): Bytes => {
  const all = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
};

/** A big-endian integer of so many bytes. */
export const bigEndian = (value: bigint | number, size: number): Bytes =>
  size ? unhex(BigInt(value).toString(16).padStart(2 * size, "0")) : new Uint8Array();

export const fromBigEndian = (bytes: Uint8Array): bigint => (bytes.length ? BigInt("0x" + hex(bytes)) : 0n);

/** Bytes of base64url without padding, with zero spare bits. */
export const fromBase64url = (text: string): Bytes => {
  require(/^[\w-]+$/.test(text) && text.length % 4 !== 1, "not base64url");
  const bytes = Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (char) => char.charCodeAt(0));
  require(base64url(bytes) === text, "not the one spelling of these bytes");
  return bytes;
};

export const base64url = (bytes: Uint8Array): string =>
  btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""))
    .replace(/\+/g, "-")
    .replace(/\//g, "_")
    .replace(/=/g, "");

export const sha256 = async (bytes: Bytes): Promise<string> =>
  hex(new Uint8Array(await crypto.subtle.digest("SHA-256", bytes)));
