/** Limits of the device, which no codebook can raise. */

import { MAX_EPSILON, MIN_PERIOD } from "../generated/limits.ts";
import { decimal } from "../protocol/canonical.ts";
import { type Page } from "../protocol/codebook.ts";
import { type Fraction, compare } from "../protocol/fraction.ts";

/** What an app may set. Null means no limit. */
export interface LimitOptions {
  /** Ids of the only codebooks to use. While another one is in force, nothing is collected. */
  readonly pin?: string | readonly string[];
  /** The most that this device spends on a UTC day, over all metrics. */
  readonly maxEpsilon?: number | null;
  /** The most that it ever spends. */
  readonly lifetimeEpsilon?: number | null;
  /** A codebook with shorter periods is not used. */
  readonly minPeriod?: string | null;
}

export interface Limits {
  readonly pin: readonly string[] | undefined;
  readonly day: Fraction | undefined;
  readonly lifetime: Fraction | undefined;
  readonly shortest: number;
}

const epsilon = (name: string, given: number | null): Fraction | undefined => {
  if (given === null) return undefined;
  // 0.3 means three tenths; what JavaScript writes with an exponent is no sensible limit.
  if (!(given > 0) || !/^[\d.]+$/.test(String(given))) throw new TypeError(name + " is a number above 0, or null for no limit");
  return decimal(String(given));
};

const SECONDS: Record<string, number> = { s: 1, m: 60, h: 3600, d: 86_400, w: 604_800 };

const seconds = (text: string): number => {
  const [, count, unit] = /^(\d+)([smhdw])$/.exec(text) ?? [];
  if (!unit) throw new TypeError('minPeriod is a text such as "1h", or null for none');
  return Number(count) * SECONDS[unit]!;
};

export const limitsOf = ({ pin, maxEpsilon = MAX_EPSILON, lifetimeEpsilon = null, minPeriod = MIN_PERIOD }: LimitOptions): Limits => {
  const ids = pin === undefined ? undefined : [pin].flat();
  if (ids?.some((id) => !/^[0-9a-f]{32}$/.test(id))) throw new TypeError("pin is the id of a codebook: 32 hexadecimal digits");
  return {
    pin: ids,
    day: epsilon("maxEpsilon", maxEpsilon),
    lifetime: epsilon("lifetimeEpsilon", lifetimeEpsilon),
    shortest: minPeriod === null ? 0 : seconds(minPeriod),
  };
};

/** Why this device does not use a codebook; undefined if it does. */
export const refusalOf = (page: Page, limits: Limits): "not_pinned" | "short_period" | "over_budget" | undefined =>
  limits.pin && !limits.pin.includes(page.id)
    ? "not_pinned"
    : page.length < limits.shortest
      ? "short_period"
      : [limits.day, limits.lifetime].some((limit) => limit && compare(page.enabledEpsilon, limit) > 0)
        ? "over_budget"
        : undefined;
