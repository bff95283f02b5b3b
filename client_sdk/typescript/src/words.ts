/** Words for people: a preview, a ledger and counters as text. A page that shows none of them need not load this. */

import { type Ledger, type Preview } from "./client.ts";
import { DECISIONS, NOTICES, PHRASES } from "./generated/words.ts";
import { fromBigEndian, unhex } from "./protocol/bytes.ts";
import { type Members } from "./protocol/canonical.ts";
import { placesOf } from "./protocol/draws.ts";

/** A time as people write it, in UTC. */
const moment = (seconds: number): string => new Date(seconds * 1000).toISOString().slice(0, 19).replace("T", " ") + "Z";
const number = (value: number): string => String(Number(value.toPrecision(4)));
const length = (seconds: number): string => {
  const [size, unit] = ([[604_800, "w"], [86_400, "d"], [3600, "h"], [60, "m"]] as const).find(([one]) => seconds % one === 0) ?? [1, "s"];
  return `${seconds / size}${unit}`;
};

const LISTED = 8;
const SHOWN = 32;

/** A phrase, which both SDKs share, with what is in braces filled in. */
const phrase = (name: keyof typeof PHRASES, filled: Readonly<Record<string, unknown>> = {}): string =>
  PHRASES[name].replace(/\{(\w+)\}/g, (_, each: string) => String(filled[each]));

const named = ({ type, values, edges }: Members, index: number): string => {
  if (type === "distribution") return (edges as string[]).slice(index, index + 2).join(" to ");
  return type === "boolean" ? String(index === 1) : JSON.stringify((values as string[])[index] ?? index);
};

/** What a randomized report says at face value. It may or may not be what was recorded. */
export const reportInWords = (question: Members | null, payload: string): string => {
  if (!question) return "unknown";
  const { name, parameters } = question.mechanism as { name: string; parameters: Members };
  const bytes = unhex(payload);
  const { values, edges } = question as Record<string, string[] | undefined>;
  const d = edges ? edges.length - 1 : (values?.length ?? 2);
  const isList = name === "subset" && (parameters.count as number) * Math.ceil(Math.log2(d)) < d;
  if (["rr", "krr", "matrix"].includes(name)) return named(question, Number(fromBigEndian(bytes)));
  if (name === "duchi") return (question.bounds as string[])[Number(fromBigEndian(bytes))]!;
  if (["oue", "sue", "subset"].includes(name) && !isList) {
    const told = placesOf(fromBigEndian(bytes.slice().reverse()), d);
    if (!told.length) return phrase("no value");
    const more = told.length > LISTED ? phrase("more values", { count: told.length - LISTED }) : "";
    return phrase("some values", { names: told.slice(0, LISTED).map((place) => named(question, place)).join(", "), more });
  }
  const shown = payload.slice(0, 2 * SHOWN);
  return phrase("bytes", { bytes: bytes.length > SHOWN ? phrase("more bytes", { bytes: shown, count: bytes.length }) : shown });
};

/** Why a report proves nothing, by the guarantee of its metric, which this device has checked. Rounded up. */
export const deniability = (question: Members | null): string =>
  question
    ? `whatever the value, these bytes are at most ${Math.ceil(100 * Math.exp(Number(question.epsilon)) - 1e-6) / 100} times as likely as from any other value`
    : phrase("report of no metric");

const headingOf = ({ metrics, takingPart, refusal }: Preview): string => {
  const count = metrics.length;
  if (!count) return phrase("collected", { what: phrase(takingPart ? "not known yet" : "without consent") });
  if (refusal) return phrase("refused", { why: refusal, count });
  return takingPart ? phrase("collected", { what: count }) : phrase("with consent", { count });
};

/** A preview for the person. It shows their own values, so it is for their eyes only. */
export const previewInWords = (preview: Preview): string => {
  const lines = [phrase("queued", { count: preview.queued.length })];
  for (const { metric, start, payload, sendsAt, question } of preview.queued) {
    const epsilon = question ? phrase("report's epsilon", { epsilon: number(Number(question.epsilon)) }) : "";
    lines.push(phrase("report", { metric, period: `from ${moment(start)}`, says: reportInWords(question, payload), epsilon }));
    lines.push(phrase("report's time", { time: moment(sendsAt), why: deniability(question) }));
  }
  lines.push(phrase("pending", { count: preview.pending.length }));
  for (const { metric, start, reduce, recorded, value, randomizedAt } of preview.pending) {
    const period = `from ${moment(start)}`;
    lines.push(phrase("value", { metric, period, reduce, recorded, value: JSON.stringify(value), time: moment(randomizedAt) }));
  }
  lines.push(headingOf(preview));
  for (const { name, type, reduce, mechanism, epsilon, enabled, description } of preview.metrics) {
    lines.push(phrase("metric", { name, off: enabled ? "" : phrase("off"), description: description || phrase("no description") }));
    const period = length(preview.period!);
    const settings = { type, reduce, period, mechanism: (mechanism as Members).name, epsilon: number(Number(epsilon)) };
    lines.push(phrase("metric's settings", settings));
  }
  return [...lines, ...closedInWords(preview)].join("\n");
};

/** What follows from not knowing what was spent before this storage was new. */
const closedInWords = ({ closedBefore, freshStorage }: Preview | Ledger): string[] => [
  ...(closedBefore === null
    ? []
    : [`Nothing is reported of periods that began before ${moment(closedBefore)}, as what was spent before is not known.`]),
  ...(freshStorage === "report"
    ? ["New storage reports at once here: if it was cleared, a period may have been reported twice."]
    : []),
];

const madeInWords = (count: number): string => (count > 1 ? phrase("reports", { count }) : phrase(count ? "one report" : "no report"));

/** The account of what was spent. */
export const ledgerInWords = (ledger: Ledger): string => {
  const of = (limit: number | null): string => (limit === null ? "" : phrase("limit", { limit: number(limit) }));
  const { spent, spentToday, maxEpsilon, lifetimeEpsilon, complete, metrics } = ledger;
  const lines = [phrase("spent", { today: number(spentToday), of_day: of(maxEpsilon), ever: number(spent), of_ever: of(lifetimeEpsilon) })];
  if (!complete) lines.push(phrase("incomplete"));
  lines.push(...closedInWords(ledger));
  for (const { name, spent: cost, reports, periods } of metrics) {
    const charged = cost ? phrase("charged", { epsilon: number(cost) }) : phrase("nothing charged");
    lines.push(phrase("account", { name, charged, made: madeInWords(reports) }));
    for (const { start, end, decision, epsilon } of periods) {
      const cost = epsilon ? phrase("decision's epsilon", { epsilon: number(epsilon) }) : "";
      lines.push(phrase("decision", { start: moment(start), end: moment(end), decision: DECISIONS[decision], epsilon: cost }));
    }
  }
  return lines.join("\n");
};

/** What a counter of `stats` means, for a developer; undefined where its name says it. */
export const explain = (counter: string): string | undefined => NOTICES[counter];
