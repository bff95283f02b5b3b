/* A photo server that people host themselves. It reports to its makers if the administrator has agreed.
 *
 * PHOTOS_TELEMETRY=yes node examples/node_service.mjs */

import { createServer } from "node:http";

import { Client } from "hubbub-client/node";
import { ledgerInWords, previewInWords } from "hubbub-client/words";

const env = process.env;

// One client for the process, and one device for the installation: never one value per visitor.
const client = new Client(env.PHOTOS_SHUFFLER ?? "http://127.0.0.1:8701", {
  trust: env.PHOTOS_TRUST ?? null, // may be unset for an address on this machine only
  consent: () => env.PHOTOS_TELEMETRY === "yes", // the administrator's answer
  stateDir: env.PHOTOS_STATE ?? "photos-state",
});

const routes = {
  "PUT /theme/": (name) => {
    client.record("theme", name); // quick enough for the event loop: it waits for no network
    client.record("dark_mode", name === "dark");
    return JSON.stringify({ theme: name });
  },
  "GET /privacy": async () => `${previewInWords(await client.preview())}\n${ledgerInWords(await client.ledger())}`,
  "DELETE /privacy": async () => JSON.stringify({ off: await client.disable() }),
};

const server = createServer(async (request, response) => {
  const asked = `${request.method} ${request.url}`;
  const [path, act] = Object.entries(routes).find(([start]) => asked.startsWith(start)) ?? [];
  if (!act) return response.writeHead(404).end();
  response.end(await act(asked.slice(path.length)));
});

server.listen(Number(env.PHOTOS_PORT ?? 8080), "127.0.0.1", () => client.record("startup_ms", performance.now()));

for (const signal of ["SIGINT", "SIGTERM"])
  process.once(signal, async () => {
    await client.close(); // what is due is randomized; the next start sends it
    server.close(() => process.exit());
    server.closeAllConnections();
  });
