/** Plants a fault: `--import ./test/plant.mjs` with FAULT, a number of test/faults.json, changes one place of the source
 * as it is loaded. With WITHOUT_REASONS, sources are loaded as the build for browsers has them. With DRAWS, that module stands in for src/protocol/draws.ts. */

import { readFileSync } from "node:fs";
import { registerHooks } from "node:module";

import { withoutReasons } from "../reasons.mjs";

const fault = process.env.FAULT === undefined ? undefined : JSON.parse(readFileSync(new URL("faults.json", import.meta.url)))[process.env.FAULT];

registerHooks({
  resolve(specifier, context, next) {
    const found = next(specifier, context);
    if (process.env.DRAWS && found.url.endsWith("/src/protocol/draws.ts") && !context.parentURL.endsWith(process.env.DRAWS))
      return { ...found, url: new URL(process.env.DRAWS, import.meta.url).href };
    return found;
  },
  load(url, context, next) {
    const loaded = next(url, context);
    if (process.env.WITHOUT_REASONS && url.includes("/src/protocol/")) return { ...loaded, source: withoutReasons(String(loaded.source)) };
    if (!fault || !url.endsWith(`/src/${fault.file}`)) return loaded;
    const source = String(loaded.source);
    if (source.split(fault.old).length !== 2) throw new Error(`${fault.name}: the source has this ${source.split(fault.old).length - 1} times`);
    return { ...loaded, source: source.replace(fault.old, () => fault.new) };
  },
});
