/** Words for people: a preview, a ledger and counters as text. A page that shows none of them need not load this. */

import { type Ledger, type Preview } from "./client.ts";
import { DECISIONS, NOTICES } from "./generated/words.ts";
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

const named = (question: Members, index: number): string =>
  question.type === "boolean" ? String(index === 1) : JSON.stringify((question.values as string[])[index] ?? index);

/** What a randomized report says at face value. It may or may not be what was recorded. */
export const reportInWords = (question: Members | null, payload: string): string => {
  if (!question) return "unknown";
  const { name, parameters } = question.mechanism as { name: string; parameters: Members };
  const bytes = unhex(payload);
  const d = (question.values as string[] | undefined)?.length ?? 2;
  const isList = name === "subset" && (parameters.count as number) * Math.ceil(Math.log2(d)) < d;
  if (["rr", "krr", "matrix"].includes(name)) return named(question, Number(fromBigEndian(bytes)));
  if (name === "duchi") return (question.bounds as string[])[Number(fromBigEndian(bytes))]!;
  if (["oue", "sue", "subset"].includes(name) && !isList) {
    const told = placesOf(fromBigEndian(bytes.slice().reverse()), d);
    if (!told.length) return "no to every value";
    const more = told.length > LISTED ? ` and ${told.length - LISTED} more` : "";
    return `yes to ${told.slice(0, LISTED).map((place) => named(question, place)).join(", ")}${more}, no to all others`;
  }
  return `the bytes ${bytes.length <= SHOWN ? payload : `${payload.slice(0, 2 * SHOWN)}… (${bytes.length} in all)`}`;
};

/** Why a report proves nothing, by the guarantee of its metric, which this device has checked. Rounded up. */
export const deniability = (question: Members | null): string =>
  question
    ? `whatever the value, these bytes are at most ${Math.ceil(100 * Math.exp(Number(question.epsilon)) - 1e-6) / 100} times as likely as from any other value`
    : "it will be dropped";

/** A preview for the person. It shows their own values, so it is for their eyes only. */
export const previewInWords = (preview: Preview): string => {
  const lines = [`Reports that wait to be sent: ${preview.queued.length}`];
  for (const { metric, start, payload, sendsAt, question } of preview.queued) {
    const epsilon = question ? ` (epsilon ${number(Number(question.epsilon))})` : "";
    lines.push(`  ${metric}, from ${moment(start)}: says ${reportInWords(question, payload)}${epsilon}`);
    lines.push(`    not before ${moment(sendsAt)}; ${deniability(question)}`);
  }
  lines.push(`Values on this device, to be randomized: ${preview.pending.length}`);
  for (const { metric, start, reduce, recorded, value, randomizedAt } of preview.pending)
    lines.push(`  ${metric}, from ${moment(start)}: ${reduce} of ${recorded} is ${JSON.stringify(value)}, randomized from ${moment(randomizedAt)}`);
  const count = preview.metrics.length;
  lines.push(
    !count
      ? `What is collected: ${preview.takingPart ? "not known yet" : "nothing, as there is no consent"}`
      : preview.refusal
        ? `What the codebook asks; nothing of it is collected (${preview.refusal}): ${count}`
        : preview.takingPart
          ? `What is collected: ${count}`
          : `What would be collected with consent; nothing is collected now: ${count}`,
  );
  for (const metric of preview.metrics) {
    const { name } = metric.mechanism as { name: string };
    const about = `${metric.type}, ${metric.reduce} per ${length(preview.period!)}, ${name}, epsilon ${number(Number(metric.epsilon))}`;
    lines.push(`  ${metric.name}${metric.enabled ? "" : " (switched off)"}: ${metric.description || "no description"} [${about}]`);
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

/** The account of what was spent. */
export const ledgerInWords = (ledger: Ledger): string => {
  const of = (limit: number | null): string => (limit === null ? "" : ` of ${number(limit)}`);
  const lines = [
    `Charged today: epsilon ${number(ledger.spentToday)}${of(ledger.maxEpsilon)}. Ever: ${number(ledger.spent)}${of(ledger.lifetimeEpsilon)}.`,
    ...closedInWords(ledger),
  ];
  for (const { name, spent, reports, periods } of ledger.metrics) {
    const made = `${reports || "no"} report${reports === 1 ? "" : "s"} made`;
    lines.push(`  ${name}: ${spent ? `epsilon ${number(spent)} charged` : "nothing charged"}, ${made}`);
    for (const { start, end, decision, epsilon } of periods)
      lines.push(`    ${moment(start)} to ${moment(end)}: ${DECISIONS[decision]}${epsilon ? `, epsilon ${number(epsilon)}` : ""}`);
  }
  return lines.join("\n");
};

/** What a counter of `stats` means, for a developer; undefined where its name says it. */
export const explain = (counter: string): string | undefined => NOTICES[counter];
