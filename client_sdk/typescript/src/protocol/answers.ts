/** Answers to an upload: the verdict on each of its reports, and the wait that is asked for. */

import { LONGEST_JSON, LONGEST_RETRY_AFTER } from "../generated/limits.ts";
import { type Action, NAMES_BY_ACTION, PROBLEM } from "../generated/refusals.ts";
import { type Members, isInteger, isObject } from "./canonical.ts";

/** An HTTP answer. Undefined stands for none in time. */
export interface Answer {
  readonly status: number;
  readonly type: string;
  readonly retryAfter: string;
  readonly body: Uint8Array<ArrayBuffer>;
}

export type Verdict = Action | "durable";

/** A verdict, with the name of the refusal if it is known. */
type Judged = readonly [verdict: Verdict, name?: string];

/** What to do about each refusal. */
export const ACTIONS: ReadonlyMap<string, Action> = new Map(
  Object.entries(NAMES_BY_ACTION).flatMap(([action, names]) =>
    names.split(" ").map((name) => [name, action as Action] as const),
  ),
);

/** The object that an answer holds, or an empty one. */
const objectIn = (answer: Answer, type: string): Members => {
  if (answer.type.split(";")[0]!.trim().toLowerCase() === type && answer.body.length <= LONGEST_JSON) {
    try {
      const value: unknown = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(answer.body));
      if (isObject(value)) return value;
    } catch {
      // not of this form, which is what an empty object says
    }
  }
  return {};
};

const isTaken = (answer: Answer | undefined): boolean => answer?.status === 202 && !answer.body.length;

const judged = (answer: Answer | undefined, n: number): Judged[] => {
  const all = (...verdict: Judged): Judged[] => Array<Judged>(n).fill(verdict);
  const retry = all("retry");
  if (!answer) return retry;
  if (isTaken(answer)) return all("durable");
  if (answer.status === 200) {
    const { failures } = objectIn(answer, "application/json");
    const found = all("durable");
    if (!Array.isArray(failures)) return retry;
    for (const failure of failures) {
      if (!isObject(failure) || !isInteger(failure.index, 0, n - 1) || typeof failure.reason !== "string") return retry;
      const { reason } = failure;
      const name = reason.startsWith(PROBLEM) ? reason.slice(PROBLEM.length) : reason;
      const action = ACTIONS.get(name);
      found[failure.index] = action ? [action, name] : ["retry"];
    }
    return found;
  }
  if (answer.status >= 400) {
    const { type } = objectIn(answer, "application/problem+json");
    const name = typeof type === "string" && type.startsWith(PROBLEM) ? type.slice(PROBLEM.length) : "";
    const action = ACTIONS.get(name);
    if (action) return all(action, name);
    if (answer.status === 413) return all("split");
  }
  return retry;
};

/** The seconds that an answer asks to wait; 0 if it does not. */
export const retryAfter = (answer: Answer | undefined): number => {
  const asked = /^ *([0-9]+) *$/.exec(answer?.retryAfter ?? "");
  return asked ? Math.min(Number(asked[1]), LONGEST_RETRY_AFTER) : 0;
};

/** What became of reports, by their place; and the wait that was asked for. */
export interface Delivered {
  readonly found: ReadonlyMap<number, Verdict>;
  /** Why reports are dropped, by their place. */
  readonly names: ReadonlyMap<number, string>;
  readonly wait: number;
}

/** Whether it is no use to send more. */
export const isPointless = ({ found, wait }: Delivered): boolean =>
  wait > 0 || [...found.values()].every((verdict) => verdict === "retry");

/** Send the reports at these places, in halves if need be. */
export const delivered = async (
  places: readonly number[],
  post: (places: readonly number[]) => Promise<Answer | undefined>,
): Promise<Delivered> => {
  const answer = await post(places);
  let wait = isTaken(answer) ? 0 : retryAfter(answer);
  const found = new Map<number, Verdict>();
  const names = new Map<number, string>();
  const again: number[] = [];
  const alone = places.length === 1 || answer?.status === 200;
  judged(answer, places.length).forEach(([verdict, name], i) => {
    const place = places[i]!;
    if (name) names.set(place, name);
    found.set(place, verdict !== "split" ? verdict : alone && name ? "drop" : "retry");
    if (verdict === "split" && !alone) again.push(place);
  });
  const half = again.length >> 1;
  for (const part of [again.slice(0, half), again.slice(half)]) {
    if (!part.length || wait) continue;
    const last = await delivered(part, post);
    last.found.forEach((verdict, place) => found.set(place, verdict));
    last.names.forEach((name, place) => names.set(place, name));
    wait = last.wait;
    if (isPointless(last)) break;
  }
  return { found, names, wait };
};
