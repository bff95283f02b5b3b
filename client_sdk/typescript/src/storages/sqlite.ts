/** Storage of Node: one SQLite file, private to its owner. Transactions are flushed to disk (FULL); notes (NORMAL) survive a kill
 * of the process and wait for nothing. */

import { closeSync, existsSync, fsyncSync, mkdirSync, openSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";

import { DAMAGED, type Note, type Rows, type Storage } from "../device/storage.ts";

const FILE = "hubbub-client.sqlite3";
const OFF = "hubbub.disabled";
const VERSION = 1;
/** Milliseconds that this process stands still for a transaction of another one; and those after which one that tries
 * again and again gives up. */
const BUSY = 100;
const PATIENCE = 10_000;
const CORRUPT = 11;
const NOT_A_DATABASE = 26;

const SQLITE_BUSY = 5;

const isBusy = (error: unknown): boolean => ((error as { errcode?: number }).errcode ?? 0) % 256 === SQLITE_BUSY;

const isDamage = (error: unknown): boolean => [CORRUPT, NOT_A_DATABASE].includes(((error as { errcode?: number }).errcode ?? 0) % 256);

export class SqliteStorage implements Storage {
  readonly #folder: string;
  readonly #path: string;
  #durable: DatabaseSync | undefined;
  #quick: DatabaseSync | undefined;
  /** The number of the file that is open. */
  #file = 0;
  /** Notes that could not be written yet. */
  readonly #late = new Map<string, string>();
  #isOff = false;
  #busy: Promise<unknown> = Promise.resolve();

  constructor(folder: string) {
    this.#folder = folder;
    this.#path = join(folder, FILE);
  }

  exists(): Promise<boolean> {
    return Promise.resolve(existsSync(this.#path));
  }

  #open(level: string, busy: number): DatabaseSync {
    mkdirSync(this.#folder, { recursive: true, mode: 0o700 });
    closeSync(openSync(this.#path, "a", 0o600));
    const database = new DatabaseSync(this.#path);
    // To open a file waits for other processes that do the same.
    database.exec(`PRAGMA busy_timeout=${BUSY}; PRAGMA journal_mode=WAL; PRAGMA synchronous=${level}; PRAGMA secure_delete=ON`);
    const { user_version: version } = database.prepare("PRAGMA user_version").get() as { user_version: number };
    if (version > VERSION) {
      database.close();
      throw new Error(`${this.#path} was written by a newer version`);
    }
    if (version < VERSION)
      database.exec(
        "BEGIN IMMEDIATE;" +
          "CREATE TABLE IF NOT EXISTS rows (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;" +
          "CREATE TABLE IF NOT EXISTS notes (name TEXT PRIMARY KEY, text TEXT NOT NULL) WITHOUT ROWID;" +
          `PRAGMA user_version=${VERSION}; COMMIT`,
      );
    database.exec(`PRAGMA busy_timeout=${busy}`);
    this.#file = statSync(this.#path).ino;
    return database;
  }

  /** Do this; if the file is damaged, or was deleted or replaced while it was open, begin a new one, which knows that what
   * was spent is not known. */
  #mended<T>(act: () => T): T {
    try {
      if (this.#durable && statSync(this.#path, { throwIfNoEntry: false })?.ino !== this.#file) this.#replace(false);
      return act();
    } catch (error) {
      if (!isDamage(error)) throw error;
      this.#replace(true);
      return act();
    }
  }

  #replace(remove: boolean): void {
    this.#closeFiles();
    if (remove) for (const end of ["", "-wal", "-shm"]) rmSync(this.#path + end, { force: true });
    this.#durable = this.#open("FULL", BUSY);
    this.#durable.prepare("INSERT OR REPLACE INTO rows VALUES (?, ?)").run(DAMAGED, "true");
  }

  async transact<T>(act: (rows: Rows) => T): Promise<T> {
    for (const end = performance.now() + PATIENCE; ; ) {
      let isBegun = false;
      try {
        return await this.#mended(() =>
          this.#transacted((rows) => {
            isBegun = true;
            return act(rows);
          }),
        );
      } catch (error) {
        if (isBegun || !isBusy(error) || performance.now() > end) throw error;
      }
      await new Promise((resolve) => setTimeout(resolve, BUSY / 5));
    }
  }

  #transacted<T>(act: (rows: Rows) => T): T {
    const database = (this.#durable ??= this.#open("FULL", BUSY));
    this.#notes(); // which cannot be opened during a transaction
    database.exec("BEGIN IMMEDIATE");
    try {
      const found = database.prepare("SELECT name, value FROM rows WHERE name < '~'").all() as { name: string; value: string }[];
      const before: Rows = new Map(found.map(({ name, value }) => [name, JSON.parse(value)]));
      const rows: Rows = new Map(before);
      const result = act(rows);
      const remove = database.prepare("DELETE FROM rows WHERE name = ?");
      const put = database.prepare("INSERT OR REPLACE INTO rows VALUES (?, ?)");
      for (const name of before.keys()) if (!rows.has(name)) remove.run(name);
      for (const [name, row] of rows)
        if (row === undefined) remove.run(name);
        else if (row !== before.get(name)) put.run(name, JSON.stringify(row));
      database.exec("COMMIT");
      return result;
    } catch (error) {
      if (database.isTransaction) database.exec("ROLLBACK");
      throw error;
    }
  }

  long(name: string): Promise<string | undefined> {
    const database = (this.#durable ??= this.#open("FULL", BUSY));
    const row = database.prepare("SELECT value FROM rows WHERE name = ?").get(name) as { value: string } | undefined;
    return Promise.resolve(row && (JSON.parse(row.value) as string));
  }

  #notes(): DatabaseSync {
    return (this.#quick ??= this.#open("NORMAL", 5));
  }

  note(name: string, text: string): void {
    try {
      this.#notes().prepare("INSERT OR REPLACE INTO notes VALUES (?, ?)").run(name, text);
    } catch (error) {
      if (!isBusy(error)) throw error;
      this.#late.set(name, text); // another process writes: a record waits for nobody
    }
  }

  notes(): Note[] {
    if (!existsSync(this.#path)) return [];
    const found = this.#notes().prepare("SELECT name, text FROM notes ORDER BY name").all() as { name: string; text: string }[];
    return [...found.map(({ name, text }): Note => [name, text]), ...this.#late];
  }

  forget(names: readonly string[]): void {
    if (!names.length) return;
    const database = (this.#durable ??= this.#open("FULL", BUSY));
    try {
      database.exec("BEGIN IMMEDIATE");
    } catch (error) {
      if (isBusy(error)) return; // they are remembered for as long as they are there, and the next cycle deletes them
      throw error;
    }
    const remove = database.prepare("DELETE FROM notes WHERE name = ?");
    for (const name of names) if (!this.#late.delete(name)) remove.run(name);
    database.exec("COMMIT");
  }

  isOff(): boolean {
    return this.#isOff || existsSync(join(this.#folder, OFF));
  }

  switchOff(off: boolean): boolean {
    const path = join(this.#folder, OFF);
    this.#isOff = off;
    try {
      if (off) {
        mkdirSync(this.#folder, { recursive: true, mode: 0o700 });
        writeFileSync(path, "Telemetry is switched off here: Client.enable switches it on again.\n", { mode: 0o600, flush: true });
        const folder = openSync(this.#folder, "r");
        fsyncSync(folder);
        closeSync(folder);
      } else rmSync(path, { force: true });
      this.#isOff = false;
      return true;
    } catch {
      this.#isOff = true;
      return false;
    }
  }

  /** In this process one at a time. Another process may run a cycle meanwhile: transactions keep each draw unique, and
   * what both upload is counted once. */
  alone<T>(act: () => Promise<T>): Promise<T | undefined> {
    const done = this.#busy.then(act);
    this.#busy = done.catch(() => undefined);
    return done;
  }

  #closeFiles(): void {
    this.#quick?.close();
    this.#durable?.close();
    this.#quick = this.#durable = undefined;
  }

  close(): void {
    this.#closeFiles();
  }
}
