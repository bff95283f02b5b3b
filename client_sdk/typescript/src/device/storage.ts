/** Storage: what a device keeps, and the two ways to keep it. A transaction is on stable storage when it ends. A note is
 * written at once and waits for nothing; it outlives the page, but perhaps not a crash of the browser. */

/** All short rows by name. `act` may set and delete, and replaces values: it never changes one in place. */
// eslint-disable-next-line @typescript-eslint/no-explicit-any
export type Rows = Map<string, any>;

export type Note = [name: string, text: string];

export interface Storage {
  /** Whether anything is kept. Asking keeps nothing. */
  exists(): Promise<boolean>;
  /** One transaction over all rows, alone among all tabs and processes. `act` is synchronous. Rows whose names begin with
   * "~" are long: they are written like others (undefined deletes one), but only `long` reads them. */
  transact<T>(act: (rows: Rows) => T): Promise<T>;
  long(name: string): Promise<string | undefined>;

  /** Throws where nothing can be kept. */
  note(name: string, text: string): void;
  notes(): Note[];
  forget(names: readonly string[]): void;

  /** The person's switch, which holds for every client of this storage, also while it is open elsewhere. */
  isOff(): boolean;
  /** False: it could not be written. */
  switchOff(off: boolean): boolean;

  /** Do this while no other tab or process does, waiting at most so many milliseconds. Undefined: it was not done. */
  alone<T>(act: () => Promise<T>, within: number): Promise<T | undefined>;
  close(): void;
}

/** A row that storage itself writes when it takes the place of one that was damaged or lost. */
export const DAMAGED = "damaged";

export const rowsOf = <T>(rows: Rows, prefix: string): [name: string, row: T][] =>
  [...rows].filter(([name]) => name.startsWith(prefix)) as [string, T][];
