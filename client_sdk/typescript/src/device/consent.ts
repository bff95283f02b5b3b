/** Consent on disk: since when there is any, and what is deleted when it ends. What was spent stays spent. */

import { type About, type Device, aboutOf, note, write } from "./device.ts";
import { type Rows, rowsOf } from "./storage.ts";

const forget = (rows: Rows, isWithdrawn: boolean): void => {
  for (const prefix of ["state ", "report "]) for (const [name] of rowsOf(rows, prefix)) rows.delete(name);
  const { since: _, ...others } = rows.get("about") as About;
  rows.set("about", { ...others, ended: others.ended + 1, withdrawn: (others.withdrawn ?? 0) + Number(isWithdrawn) });
};

/** Whether consent was withdrawn in another tab. One that was told yes before, and may not know, is quiet from then on:
 * until it is told no and yes again, or until some tab that is told yes has begun again. */
export const isWithdrawnElsewhere = ({ heard, rows }: Device): boolean => {
  const { since, withdrawn = 0 } = aboutOf(rows);
  return since === undefined && heard !== undefined && heard < withdrawn;
};

/** Ask for consent, and act on the answer. A person who says no gets not even an empty storage. */
export const hear = async (d: Device): Promise<boolean> => {
  const agreed = d.agrees();
  if (agreed && aboutOf(d.rows).since === undefined) await write(d, (rows) => begin(d, rows));
  if (agreed && !isWithdrawnElsewhere(d)) return true;
  d.queue = [];
  const notes = d.storage.notes().map(([name]) => name);
  if (notes.length) d.storage.forget(notes);
  const isWithdrawn = !d.storage.isOff();
  if (!agreed && (await d.storage.exists())) await write(d, (rows) => aboutOf(rows).since !== undefined && forget(rows, isWithdrawn));
  return false;
};

/** Write down since when there is consent. */
export const begin = (d: Device, rows: Rows): void => {
  const { since, withdrawn = 0 } = aboutOf(rows);
  if (!d.agrees()) return;
  d.heard ??= withdrawn;
  if (since === undefined && d.heard >= withdrawn) note(rows, { since: d.clock() });
};
