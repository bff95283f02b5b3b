"use strict";

const client = new hubbub.Client("http://127.0.0.1:8701", {
  trust: null, // only for an address on this machine; elsewhere the line that the aggregator prints
  consent: () => localStorage.getItem("telemetry") === "yes", // asked each time; no answer means no
  maxEpsilon: 6, // the most that this browser spends in a day: a short visit leaves its day to the next one
});

addEventListener("load", () =>
  // one moment later the browser knows how long it took
  setTimeout(() => {
    const [navigation] = performance.getEntriesByType("navigation");
    if (navigation) client.record("load_ms", navigation.duration);
  }),
);

const find = (id) => document.getElementById(id);

find("search").onclick = () => client.record("search_used", true);
find("theme").onchange = () => client.record("theme", find("theme").value);

const showAnswer = () => {
  const answer = localStorage.getItem("telemetry");
  find("question").hidden = answer !== null;
  find("answer").textContent = `Reports from this browser: ${answer ?? "not answered yet"}`;
};

const answer = async (text) => {
  localStorage.setItem("telemetry", text);
  showAnswer();
  // "No" deletes what was kept, in all tabs. The ledger stays: what was spent is not forgotten.
  await (text === "yes" ? client.enable() : client.disable());
};

find("yes").onclick = () => answer("yes");
find("no").onclick = () => answer("no");
find("change").onclick = () => answer(localStorage.getItem("telemetry") === "yes" ? "no" : "yes");
find("show").onclick = async () => {
  const shown = { ...(await client.preview()), ledger: await client.ledger() };
  find("kept").textContent = JSON.stringify(shown, null, 2); // true values: for the person, never for a log
};

showAnswer();
