/** The SDK for Node: `new Client(address, {trust, consent, stateDir})`, with a state file as the Python SDK has one. */

import { Client as Core, type Options as CoreOptions } from "./client.ts";
import { checkedAddress } from "./device/address.ts";
import { systemCoins, systemValues } from "./device/randomness.ts";
import { fetching } from "./device/transport.ts";
import { explain } from "./words.ts";
import { SqliteStorage } from "./storages/sqlite.ts";

export type { FlushOptions, Ledger, LedgerEntry, Outcome, Preview } from "./client.ts";

export interface Options extends CoreOptions {
  /** A folder of this app's own, one for each collection. Processes may share it. */
  readonly stateDir: string;
}

/** Whether a switch in the environment is on: set, and not empty, 0 or false. */
const isSet = (name: string): boolean => !["", "0", "false"].includes((process.env[name] ?? "").trim().toLowerCase());

const refusal = (): string | undefined => {
  const name = ["DO_NOT_TRACK", "HUBBUB_DISABLED"].find(isSet);
  return name && `nothing is kept or sent: ${name} is set in the environment`;
};

export class Client extends Core {
  constructor(address: string, options: Options) {
    const base = checkedAddress(address);
    super(base, { ...options, strict: options.strict ?? isSet("HUBBUB_STRICT") }, {
      storage: new SqliteStorage(options.stateDir),
      transport: fetching(base, { "User-Agent": "hubbub", "Accept-Encoding": "identity" }),
      clock: () => Date.now() / 1000,
      running: () => performance.now() / 1000,
      sleep: (seconds) => new Promise((resolve) => setTimeout(resolve, seconds * 1000)),
      values: systemValues,
      coins: systemCoins,
      refusal,
      explain,
    });
  }
}
