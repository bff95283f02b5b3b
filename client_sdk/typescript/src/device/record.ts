/** Record and reduce: a value becomes a note at once, and notes become what is kept of a metric in a period. */

import { type Outcome } from "../generated/outcomes.ts";
import { MOST_WAITING } from "../generated/up_front.ts";
import { isOn, pageOf } from "../protocol/bundle.ts";
import { type Metric } from "../protocol/metric.ts";
import { type Page } from "../protocol/codebook.ts";
import { endOf, periodOf, startOf, utcDate } from "../protocol/period.ts";
import { reduce } from "../protocol/reduce.ts";
import { Refused } from "../protocol/refused.ts";
import { type Value, taken } from "../protocol/values.ts";
import { type Device, type Pin, type Recorded, aboutOf, nameOfSpan, pinName } from "./device.ts";
import { type Raw, noteName, rawNote } from "./early.ts";
import { type Decision, type Span, decisionOf } from "./ledger.ts";
import { refusalOf } from "./limits.ts";
import { type Rows } from "./storage.ts";

/** A mistake of the app's developer: there is no such metric, or it does not take the value. */
export class Mistake extends Error {}

/** The outcome after a final decision; undefined if values may still be recorded. */
const closedTo = (rows: Rows, metric: string, first: boolean, span: Span): Outcome | undefined => {
  const decision = decisionOf(rows, metric, span);
  const outcomes: Record<Decision, Outcome | undefined> = {
    charged: undefined,
    "out of share": "not_in_share",
    refused: "over_budget",
    closed: "over_budget",
    spent: first ? "recorded" : "over_budget",
  };
  return decision ? outcomes[decision] : rows.has(pinName(span)) ? "disabled" : undefined;
};

/** Most names that a message lists. */
const LISTED = 9;

const found = (page: Page, name: string): Metric => {
  const metric = page.metrics.get(name);
  if (metric) return metric;
  const others = [...page.metrics.keys()].slice(0, LISTED).join(", ");
  const why = page.refused.has(name) ? " that this SDK can read" : others && `; the codebook has ${others}`;
  throw new Mistake(`no metric is named ${name}${why}`);
};

/** What a metric takes. Reasons of refusals are not in a build for browsers, and a text never holds a recorded value. */
const takes = ({ type, values }: Metric): string =>
  type === "boolean"
    ? "true or false"
    : type === "category"
      ? `one of ${values.slice(0, LISTED).join(", ")}${values.length > LISTED ? ", ..." : ""}`
      : "a number";

const keptValue = (metric: Metric, value: unknown): Value => {
  try {
    return taken(metric, value);
  } catch (error) {
    throw error instanceof Refused ? new Mistake(`metric ${metric.name} does not take this: it takes ${takes(metric)}`) : error;
  }
};

type Noted = Omit<Recorded, "n" | "kept"> & { readonly kept: Value; readonly ended: number };

let made = 0;

/** They are forgotten with the page. */
const keep = (d: Device, at: number, text: string): void => d.storage.note(noteName(at, d.run, ++made), text);

const put = (d: Device, name: string, value: unknown, at: number): Outcome => {
  if (d.queue.length + d.waitingNotes >= MOST_WAITING) {
    d.count("lost:no-room");
    return "expired";
  }
  const text = d.notesEarly && rawNote(name, value, at);
  if (text) {
    keep(d, at, text);
    d.waitingNotes++;
  } else d.queue.push([name, value, at]);
  return "waiting";
};

/** What a value becomes by the codebook of its period: a note, or an outcome. Nothing here waits, sends, or draws a coin
 * that shows. */
const judged = (d: Device, rows: Rows, name: string, value: unknown, at: number, now: number): Noted | Outcome => {
  const { bundle } = d;
  const length = (bundle ?? d.shipped)?.length;
  if (!length) return "waiting";
  const index = periodOf(at, length);
  const span = { start: startOf(index, length), end: endOf(index, length) };
  const pin: Pin | undefined = rows.get(pinName(span));
  const page = pin ? d.pages.get(pin.page) : bundle ? pageOf(bundle, index) : d.shipped;
  if (d.strict && page) keptValue(found(page, name), value);
  if (bundle && now >= bundle.expires) return "expired";
  if (!page) return "invalid";
  const refusal = refusalOf(page, d.limits);
  if (refusal) return refusal;
  const metric = found(page, name);
  if (bundle ? !isOn(bundle, metric) : !metric.enabled) return "disabled";
  if (metric.expires !== null && metric.expires <= utcDate(now)) return "expired";
  const kept = keptValue(metric, value);
  const closes = span.end + page.grace;
  if (now >= closes) return "expired";
  const { since, ended } = aboutOf(rows);
  if (since === undefined) return "waiting";
  const first = metric.reduce === "first";
  const final = closedTo(rows, name, first, span);
  if (final) return final;
  if (first && rows.has(stateName(name, span))) return "recorded";
  return { metric: name, index, ...span, closes, reduce: metric.reduce, at, kept, ended: ended! };
};

/** Take a value: it becomes a note, or waits for a codebook. */
export const take = (d: Device, name: string, value: unknown, at: number, now: number): Outcome => {
  const noted = judged(d, d.rows, name, value, at, now);
  if (noted === "waiting") return put(d, name, value, at);
  if (typeof noted === "string") return noted;
  keep(d, at, JSON.stringify(noted));
  return "recorded";
};

export const stateName = (metric: string, { start, end }: Span): string => `state ${metric} ${nameOfSpan(start, end)}`;

/** Seconds for which a name of a note is remembered: storage of another tab may still show the note for a moment. */
const REMEMBERED = 600;

/** What a note became: reduced, or not to be counted; "waiting" if there is no codebook for it yet. */
const absorbed = (d: Device, rows: Rows, text: string): Outcome | undefined => {
  const note = JSON.parse(text) as Noted | Raw;
  const { since, ended, withdrawn } = aboutOf(rows);
  let noted = note as Noted;
  if ("raw" in note) {
    if (withdrawn && note.at < (since ?? Infinity)) return "disabled";
    const outcome = judged(d, rows, note.name, note.raw, note.at, d.clock());
    if (typeof outcome === "string") return outcome;
    noted = outcome;
  }
  if (noted.ended !== ended || since === undefined) return undefined;
  const { kept, ended: _, ...about } = noted;
  if (!(about.start < about.end)) throw new TypeError("a note of another form");
  const final = closedTo(rows, about.metric, about.reduce === "first", about);
  if (final) return final === "recorded" ? undefined : final;
  const where = stateName(about.metric, about);
  const before: Recorded | undefined = rows.get(where);
  const state = before?.reduce === about.reduce ? before : undefined;
  rows.set(where, { ...about, at: (state ?? about).at, ...reduce(about.reduce, state, kept, d.values) });
  return "raw" in note ? "recorded" : undefined;
};

/** Reduce all notes. Their names are kept with what became of them, so that each counts once, whatever tab or crash; then
 * `forget` may delete them. */
export const absorb = (d: Device, rows: Rows): string[] => {
  const notes = d.storage.notes();
  d.waitingNotes = 0;
  if (!notes.length) return [];
  const before: Record<string, true> = rows.get("absorbed") ?? {};
  const still = Object.fromEntries(
    Object.entries(before).filter(([name]) => parseInt(name) / 1000 > d.clock() - REMEMBERED || notes.some(([other]) => other === name)),
  );
  const gone: string[] = [];
  for (const [name, text] of notes) {
    let outcome: Outcome | undefined;
    if (!still[name]) {
      try {
        outcome = absorbed(d, rows, text);
      } catch (error) {
        // A note that is damaged must not keep all others back.
        if (!(error instanceof Mistake || error instanceof Refused)) d.count("lost:damaged");
        else outcome = "invalid";
      }
      // Those beyond the limit never count: a codebook may never come.
      if (outcome === "waiting" && ++d.waitingNotes <= MOST_WAITING) continue;
      if (outcome) d.count(outcome === "waiting" ? "lost:no-room" : "late:" + outcome);
    }
    still[name] = true;
    gone.push(name);
  }
  rows.set("absorbed", still);
  return gone;
};
