/** Storage in memory, for tests: what is here outlives a client, and nothing else. Several clients may share it, as tabs
 * do. */

import { type Note, type Rows, type Storage } from "../device/storage.ts";

export class MemoryStorage implements Storage {
  rows: Rows = new Map();
  #notes = new Map<string, string>();
  #isOff = false;
  #busy: Promise<unknown> = Promise.resolve();

  exists(): Promise<boolean> {
    return Promise.resolve(this.rows.size > 0);
  }

  transact<T>(act: (rows: Rows) => T): Promise<T> {
    const rows: Rows = new Map([...this.rows].filter(([name]) => !name.startsWith("~")));
    const before = new Map(rows);
    const result = act(rows);
    for (const name of before.keys()) if (!rows.has(name)) this.rows.delete(name);
    for (const [name, row] of rows)
      if (row === undefined) this.rows.delete(name);
      else if (row !== before.get(name)) this.rows.set(name, structuredClone(row));
    return Promise.resolve(result);
  }

  long(name: string): Promise<string | undefined> {
    return Promise.resolve(this.rows.get(name) as string | undefined);
  }

  note(name: string, text: string): void {
    this.#notes.set(name, text);
  }

  notes(): Note[] {
    return [...this.#notes].sort(([one], [two]) => (one < two ? -1 : 1));
  }

  forget(names: readonly string[]): void {
    for (const name of names) this.#notes.delete(name);
  }

  isOff(): boolean {
    return this.#isOff;
  }

  switchOff(off: boolean): boolean {
    this.#isOff = off;
    return true;
  }

  alone<T>(act: () => Promise<T>): Promise<T | undefined> {
    const done = this.#busy.then(act);
    this.#busy = done.catch(() => undefined);
    return done;
  }

  close(): void {
    // nothing to close
  }
}
