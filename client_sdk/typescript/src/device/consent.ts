/** Consent on disk: since when there is any, and what is deleted when it ends. What was spent stays spent. */

import { type About, type Device, aboutOf, note, write } from "./device.ts";
import { type Rows, rowsOf } from "./storage.ts";

const forget = (rows: Rows): void => {
  for (const prefix of ["state ", "report "]) for (const [name] of rowsOf(rows, prefix)) rows.delete(name);
  const { since: _, ...others } = rows.get("about") as About;
  rows.set("about", { ...others, ended: others.ended + 1 });
};

/** Ask for consent, and act on the answer. A person who says no gets not even an empty storage. */
export const hear = async (d: Device): Promise<boolean> => {
  const agreed = d.agrees();
  if (!agreed) {
    d.queue = [];
    const notes = d.storage.notes().map(([name]) => name);
    if (notes.length) d.storage.forget(notes);
    if (await d.storage.exists()) await write(d, (rows) => aboutOf(rows).since !== undefined && forget(rows));
  } else if (aboutOf(d.rows).since === undefined) await write(d, (rows) => begin(d, rows));
  return agreed;
};

/** Write down since when there is consent. */
export const begin = (d: Device, rows: Rows): void => {
  if (aboutOf(rows).since === undefined && d.agrees()) note(rows, { since: d.clock() });
};
