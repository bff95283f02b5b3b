/** Storage of a browser: notes in localStorage, rows in IndexedDB by strict transactions, one Web Lock for cycles, and a
 * channel by which a switch reaches other tabs at once. */

import { type Note, type Rows, type Storage } from "../device/storage.ts";

const STORE = "rows";
const LONG = "~";

const done = <T>(request: IDBRequest<T>): Promise<T> =>
  new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error as DOMException);
  });

export class BrowserStorage implements Storage {
  readonly #name: string;
  #database: Promise<IDBDatabase | undefined> | undefined;
  readonly #channel: BroadcastChannel;
  /** What was heard of the switch since this page began. */
  #isOff = false;

  /** Throws where a page may keep nothing. */
  constructor(name: string) {
    this.#name = name;
    localStorage.getItem(name);
    if (!indexedDB || !navigator.locks || !crypto.subtle) throw new Error("no storage");
    this.#channel = new BroadcastChannel(name);
    this.#channel.onmessage = ({ data }) => (this.#isOff = data === true);
  }

  /** The database; undefined if there is none and none is to be made. */
  async #opened(make: boolean): Promise<IDBDatabase | undefined> {
    const before = await this.#database?.catch(() => undefined);
    if (before) return before;
    const request = indexedDB.open(this.#name, 1);
    let isAborted = false;
    request.onupgradeneeded = () => {
      if (make) request.result.createObjectStore(STORE);
      else {
        isAborted = true;
        request.transaction!.abort();
      }
    };
    this.#database = done(request).then(
      (database) => {
        // So that a page without consent knows that there may be something to delete.
        localStorage.setItem(this.#name, "1");
        // Cleared, or a newer version elsewhere: the next transaction opens it again.
        database.onclose = database.onversionchange = () => {
          database.close();
          this.#database = undefined;
        };
        return database;
      },
      (error: unknown) => {
        this.#database = undefined;
        if (isAborted) return undefined;
        throw error;
      },
    );
    return this.#database;
  }

  async exists(): Promise<boolean> {
    return !!(await this.#opened(false));
  }

  async transact<T>(act: (rows: Rows) => T): Promise<T> {
    const database = (await this.#opened(true))!;
    return new Promise<T>((resolve, reject) => {
      const transaction = database.transaction(STORE, "readwrite", { durability: "strict" });
      const store = transaction.objectStore(STORE);
      const range = IDBKeyRange.upperBound(LONG, true);
      const names = store.getAllKeys(range) as IDBRequest<string[]>;
      const values = store.getAll(range);
      let result: T;
      let problem: unknown;
      values.onsuccess = () => {
        try {
          const before: Rows = new Map(names.result.map((name, i) => [name, values.result[i]]));
          const rows: Rows = new Map(before);
          result = act(rows);
          for (const name of before.keys()) if (!rows.has(name)) store.delete(name);
          for (const [name, row] of rows)
            if (row === undefined) store.delete(name);
            else if (row !== before.get(name)) store.put(row, name);
          transaction.commit();
        } catch (error) {
          problem = error;
          transaction.abort();
        }
      };
      transaction.oncomplete = () => resolve(result);
      transaction.onabort = () => reject((problem ?? transaction.error) as Error);
    });
  }

  async long(name: string): Promise<string | undefined> {
    const database = await this.#opened(true);
    return done(database!.transaction(STORE).objectStore(STORE).get(name)) as Promise<string | undefined>;
  }

  note(name: string, text: string): void {
    localStorage.setItem(this.#name + " note " + name, text);
  }

  notes(): Note[] {
    const prefix = this.#name + " note ";
    const names = Object.keys(localStorage).filter((name) => name.startsWith(prefix));
    return names.sort().flatMap((name) => {
      const text = localStorage.getItem(name);
      return text === null ? [] : [[name.slice(prefix.length), text]];
    });
  }

  forget(names: readonly string[]): void {
    for (const name of names) localStorage.removeItem(this.#name + " note " + name);
  }

  isOff(): boolean {
    return this.#isOff || localStorage.getItem(this.#name + " off") !== null;
  }

  switchOff(off: boolean): boolean {
    const name = this.#name + " off";
    this.#isOff = off;
    this.#channel.postMessage(off);
    try {
      if (off) localStorage.setItem(name, "1");
      else localStorage.removeItem(name);
      return true;
    } catch {
      return false;
    }
  }

  alone<T>(act: () => Promise<T>, within: number): Promise<T | undefined> {
    if (within > 0) {
      const signal = AbortSignal.timeout(within);
      return navigator.locks.request(this.#name, { signal }, act).catch((error: unknown) => (signal.aborted ? undefined : Promise.reject(error as Error)));
    }
    return navigator.locks.request(this.#name, { ifAvailable: true }, (lock) => (lock ? act() : undefined));
  }

  close(): void {
    this.#channel.close();
    void this.#database?.then((database) => database?.close());
    this.#database = undefined;
  }
}
