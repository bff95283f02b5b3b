/** Build of the package: `node build.mjs [DIR]` writes the ES modules that are published, and the one file for a script
 * tag (hubbub.js, which defines `hubbub.Client`). Types come from `tsc --project tsconfig.build.json`. */

import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";

import { build } from "esbuild";

import { withoutReasons } from "./reasons.mjs";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));

/** Reasons of refusals are for who reads the sources: a browser gets none. */
const plugin = {
  name: "without reasons",
  setup: (setup) =>
    setup.onLoad({ filter: /src[\\/]protocol[\\/].*\.ts$/ }, async ({ path }) => ({
      contents: withoutReasons(await readFile(path, "utf8")),
      loader: "ts",
    })),
};

/** A file for a script tag has the engine in it: it need not be put off. */
const atOnce = {
  name: "the engine at once",
  setup: (setup) =>
    setup.onLoad({ filter: /src[\\/]browser\.ts$/ }, async ({ path }) => {
      const source = await readFile(path, "utf8");
      const contents = source.replace('import("./engine.ts")', "Promise.resolve(engine)");
      if (contents === source) throw new Error("browser.ts does not load the engine");
      return { contents: 'import * as engine from "./engine.ts";\n' + contents, loader: "ts" };
    }),
};

const common = { bundle: true, target: "es2022", logLevel: "warning", legalComments: "none", absWorkingDir: here("."), write: true };

export const buildAll = async (folder, more = {}) => {
  const browser = { ...common, minify: true, plugins: [plugin], ...more };
  const made = [
    await build({ ...browser, entryPoints: ["src/browser.ts"], outdir: folder, format: "esm", splitting: true, chunkNames: "[name]-[hash]" }),
    // Apart: what it shares with the engine is little, and would cost each page that shows no words another file.
    await build({ ...browser, entryPoints: ["src/words.ts"], outdir: folder, format: "esm" }),
    await build({ ...browser, plugins: [plugin, atOnce], entryPoints: { hubbub: "src/browser.ts" }, outdir: folder, format: "iife", globalName: "hubbub" }),
    await build({ ...common, ...more, entryPoints: ["src/node.ts", "src/testing.ts"], outdir: folder, format: "esm", platform: "node" }),
  ];
  return made.flatMap(({ outputFiles = [] }) => outputFiles);
};

if (process.argv[1] === fileURLToPath(import.meta.url)) await buildAll(process.argv[2] ?? here("dist"));
