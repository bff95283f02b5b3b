/** Periods: spans of UTC time that have an index. */

import { LONGEST, WEEK_ORIGIN, YEAR_10000, LARGEST_PERIOD } from "../generated/limits.ts";
import { isInteger } from "./canonical.ts";
import { require } from "./refused.ts";

export const DAY = 86_400;
const WEEK = 7 * DAY;

export const isLength = (seconds: unknown): seconds is number =>
  isInteger(seconds, 1, LONGEST) && (DAY % seconds === 0 || seconds % DAY === 0);

export const startOf = (index: number, length: number): number =>
  (length % WEEK === 0 ? WEEK_ORIGIN : 0) + index * length;

export const endOf = (index: number, length: number): number => startOf(index + 1, length);

export const isPeriod = (index: number, length: number): boolean =>
  isInteger(index, 0, LARGEST_PERIOD) && endOf(index, length) < YEAR_10000;

/** The index of the period that holds a time. */
export const periodOf = (time: number, length: number): number => {
  require(time >= 0 && time < YEAR_10000, "no period holds this time");
  const index = Math.floor((Math.floor(time) - startOf(0, length)) / length);
  require(isPeriod(index, length), "no such period");
  return index;
};

/** The UTC date of a time. */
export const utcDate = (time: number): string => new Date(Math.floor(time) * 1000).toISOString().slice(0, 10);
