/** Notes of values that wait for a codebook: a page may end before the engine is loaded, or before the first bundle is
 * there. The next page counts them. */

import { LONGEST_VALUE } from "../generated/up_front.ts";

/** A value with its metric and time, until a codebook says what it means. */
export interface Raw {
  readonly name: string;
  readonly raw: string | number | boolean;
  readonly at: number;
}

/** Names sort by time. Nothing but storage sees them, and they are deleted with the note. */
export const noteName = (at: number, run: string, number: number): string =>
  `${Math.floor(at * 1000)} ${run} ${String(number).padStart(9, "0")}`;

/** The text of a note; undefined for what no metric takes or what JSON cannot say, which waits in memory. */
export const rawNote = (name: string, raw: unknown, at: number): string | undefined => {
  const isPlain = typeof raw === "boolean" || (typeof raw === "string" && raw.length <= LONGEST_VALUE) || Number.isFinite(raw);
  return isPlain && name.length <= LONGEST_VALUE ? JSON.stringify({ name, raw, at }) : undefined;
};
