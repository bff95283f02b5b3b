/** Bytes of a page that counts one thing with each SDK: `node measure.mjs ESBUILD FOLDER`, where FOLDER has the entries
 * and their packages. Every one is bundled and minified in the same way. Prints JSON. */

import { readFile, readdir } from "node:fs/promises";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { brotliCompressSync, gzipSync } from "node:zlib";

const [esbuild, folder] = process.argv.slice(2);
const { build } = (await import(pathToFileURL(esbuild))).default;

const found = {};
for (const name of await readdir(join(folder, "entries"))) {
  const options = { bundle: true, minify: true, format: "esm", target: "es2022", platform: "browser", legalComments: "none", logLevel: "error" };
  const { outputFiles } = await build({ ...options, entryPoints: [join(folder, "entries", name)], write: false });
  const [{ contents }] = outputFiles;
  found[name.replace(".js", "")] = { bytes: contents.length, gzip: gzipSync(contents, { level: 9 }).length, brotli: brotliCompressSync(contents).length };
}
for (const name of Object.keys(found)) {
  const source = await readFile(join(folder, "entries", `${name}.js`), "utf8");
  const packages = [...source.matchAll(/from "((?:@[^/"]+\/)?[^/"]+)/g)].map(([, one]) => one);
  const versions = await Promise.all([...new Set(packages)].map(async (one) => `${one} ${JSON.parse(await readFile(join(folder, "node_modules", one, "package.json"))).version}`));
  found[name].versions = versions.join(", ");
}
console.log(JSON.stringify(found));
