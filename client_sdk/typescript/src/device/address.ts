/** Addresses and trust anchors that a client may have. */

const LOOPBACK = /^https?:\/\/(127(\.\d+){3}|localhost|\[::1\])(:\d+)?(\/|$)/;

export const isLoopback = (address: string): boolean => LOOPBACK.test(address);

/** An address without the slashes at its end. */
export const checkedAddress = (address: string): string => {
  const { protocol, search, hash, username } = new URL(address);
  if (protocol !== "https:" && !(protocol === "http:" && isLoopback(address)))
    throw new TypeError(`${address} is not https; plain http is for an address on this machine`);
  if (search || hash || username) throw new TypeError("an address has no user, query or fragment");
  return address.replace(/\/+$/, "");
};

/** The signers that are trusted. Undefined: whoever is first. */
export const anchorsOf = (trust: string | readonly string[] | null, address: string): readonly string[] | undefined => {
  const anchors = [trust ?? []].flat();
  if (anchors.some((anchor) => !/^ed25519:[\w-]{43}$/.test(anchor)) || !(anchors.length || isLoopback(address)))
    throw new TypeError(`trust is needed for ${address}: the line "ed25519:..." that the aggregator prints`);
  return anchors.length ? anchors : undefined;
};
