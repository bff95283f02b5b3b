/* The browser page: each button records a value with the SDK, as a site would. The shuffler gets randomized reports only,
 * and this page's own server gets none: it is asked for estimates, and for simulated devices. */

"use strict";

const find = (id) => document.getElementById(id);
const make = (tag, text = "", name = "") => Object.assign(document.createElement(tag), { textContent: text, className: name });
const clock = (seconds) => new Date(seconds * 1000).toISOString();
const MOST_ROWS = 6;
const CONSENT = "hubbub page: agreed";

const OUTCOMES = {
  recorded: "Recorded. It is randomized before it leaves this browser.",
  waiting: "Recorded. It waits for the codebook.",
  over_budget: "Not taken: this period has its report, or it had begun before this storage was new.",
  not_in_share: "Not taken: a private coin keeps this browser out of this period.",
  disabled: "Nothing is kept: there is no consent, or it is switched off.",
  no_durable_state: "Nothing is kept: this browser lets the page store nothing.",
  expired: "Not taken: it is too late, or too much waits.",
};

let facts, client;
/** What was pressed and what reports said, by metric and period. It is lost with the page, as a true value should be. */
const seen = new Map();
const about = (name) => facts.metrics.find((metric) => metric.name === name);
const moment = (seconds) => {
  const text = clock(seconds);
  return facts.period % 86400 === 0 ? text.slice(0, 10) : text.slice(11, facts.period % 60 ? 19 : 16);
};
const now = () => Date.now() / 1000;
const periodAt = (seconds) => facts.origin + Math.floor((seconds - facts.origin) / facts.period) * facts.period;

const ask = async (path, body) => {
  const given = body && { method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" } };
  const answer = await fetch(path, given);
  const found = await answer.json();
  if (!answer.ok) throw new Error(found.detail || found.title);
  return found;
};

const press = (metric, value, label, said) => {
  const start = periodAt(now());
  const outcome = client.record(metric.name, value);
  said.textContent = OUTCOMES[outcome] ?? `Not taken: ${outcome}.`;
  said.dataset.outcome = outcome;
  if (outcome === "recorded" || outcome === "waiting") seen.set(`${metric.name} ${start}`, { name: metric.name, start, recorded: label });
};

const card = (metric) => {
  const box = make("article", "", "card");
  box.dataset.metric = metric.name;
  const said = make("p", "", "quiet said");
  said.setAttribute("role", "status");
  const controls = make("div", "", "controls");
  if (metric.choices)
    for (const { value, label } of metric.choices) {
      const button = Object.assign(make("button", label), { type: "button" });
      button.onclick = () => press(metric, value, label, said);
      controls.append(button);
    }
  else {
    const input = Object.assign(make("input"), { type: "number", step: "any", value: metric.number, required: true });
    input.setAttribute("aria-label", metric.unit ? `${metric.name}, in ${metric.unit}` : metric.name);
    const button = Object.assign(make("button", "Record"), { type: "button" });
    button.onclick = () => input.reportValidity() && press(metric, input.valueAsNumber, input.value, said);
    controls.append(input, button);
  }
  box.append(make("h3", metric.name), make("p", metric.description, "quiet"), controls, said, make("div", "", "estimate"));
  return box;
};

/** What a randomized report says; in words where it names one value. */
const face = (metric, payload) =>
  metric.faces[payload] ?? (payload.length > 24 ? `${payload.slice(0, 24)}… (${payload.length / 2} bytes)` : `0x${payload}`);

/** What happened to each report: from the ledger, the preview and the estimates. A state that was seen stays. */
const showReports = (preview, ledger, released) => {
  const gone = Object.keys(client.stats()).some((name) => name.startsWith("dropped:")) ? "sent, or dropped: see the console" : "sent";
  const note = (name, start, found) => seen.set(`${name} ${start}`, { name, start, ...seen.get(`${name} ${start}`), ...found });
  for (const { name, periods } of ledger.metrics) for (const { start, decision } of periods) if (decision === "spent") note(name, start, { state: gone });
  for (const { metric, start, randomizedAt } of preview.pending) note(metric, start, { state: `only in this browser; randomized from ${clock(randomizedAt).slice(11, 19)} on` });
  for (const { metric, start, payload, sendsAt } of preview.queued) note(metric, start, { payload, state: `randomized; sent from ${clock(sendsAt).slice(11, 19)} on` });
  for (const [name, starts] of released) for (const start of starts) if (seen.get(`${name} ${start}`)?.state === "sent") note(name, start, { state: "counted in the estimate" });
  const rows = [...seen.values()]
    .sort((one, two) => two.start - one.start)
    .slice(0, 12)
    .map(({ name, start, recorded = "before this page", payload, state = "noted" }) => {
      const row = make("tr");
      const says = payload === undefined ? "" : face(about(name), payload);
      row.append(...[name, moment(start), recorded, says, state].map((text) => make("td", text)));
      return row;
    });
  if (rows.length) find("reports").replaceChildren(...rows);
  find("spent").textContent = ledger.spent ? `Epsilon charged since this storage began: ${Number(ledger.spent.toPrecision(4))}, whether or not you press. A trial has no limit; a real browser has.` : "";
};

const number = (value, isShare, unit) => (isShare ? `${(100 * value).toFixed(1)} %` : `${Number(value.toPrecision(4))}${unit && ` ${unit}`}`);

const showEstimates = (estimates) => {
  for (const metric of facts.metrics) {
    const found = estimates.find(({ name }) => name === metric.name);
    const place = document.querySelector(`[data-metric="${CSS.escape(metric.name)}"] .estimate`);
    if (!found?.values) {
      const why = found?.discarded.length ? "The last crowd was too small." : "No estimate yet.";
      place.replaceChildren(make("p", `${why} It needs ${metric.needed} reports in one period.`, "quiet"));
      continue;
    }
    const list = make("dl");
    const most = [...found.values].sort((one, two) => two.value - one.value).slice(0, MOST_ROWS);
    for (const { label, value, low, high } of found.isShare ? most : found.values.slice(0, MOST_ROWS))
      list.append(make("dt", label), make("dd", `${number(value, found.isShare, found.unit)}  (${number(low, found.isShare, "")} to ${number(high, found.isShare, "")})`));
    place.dataset.start = found.start;
    const more = found.values.length > MOST_ROWS ? `, and ${found.values.length - MOST_ROWS} more values` : "";
    place.replaceChildren(list, make("p", `${found.reports} reports of the period ${moment(found.start)}${more}`, "quiet"));
  }
};

const statusOf = (ledger) => {
  if (!find("agreed").checked) return "Nothing is kept, and nothing was asked of the shuffler.";
  const opens = ledger?.closedBefore && periodAt(ledger.closedBefore - 0.001) + facts.period;
  if (opens > now()) return `This browser's storage is new. It cannot know what was spent before, so it reports from the next period on: in ${Math.ceil(opens - now())} s.`;
  const left = Math.ceil(periodAt(now()) + facts.period - now());
  const rest = left < 600 ? `in ${left} s` : `at ${clock(periodAt(now()) + facts.period).slice(0, 16)}Z`;
  const at = facts.freshStorage === "report" ? ' With periods this long, the page sets freshStorage: "report"; a real site waits for the next one.' : "";
  return `This browser takes part: one report for each metric and period of ${facts.periodInWords}. This one ends ${rest}; its reports may arrive for ${facts.graceInWords} more.${at}`;
};

let isBusy = false;
const refresh = async () => {
  if (isBusy || document.hidden) return;
  isBusy = true;
  try {
    const agreed = find("agreed").checked;
    let ledger;
    const estimates = await ask("/estimates.json");
    showEstimates(estimates);
    if (agreed) {
      await client.flush({ timeout: 0 });
      ledger = await client.ledger();
      showReports(await client.preview(), ledger, new Map(estimates.map(({ name, released }) => [name, released])));
      if (client.stats()["error:NoDurableState"]) find("status").textContent = OUTCOMES.no_durable_state;
    }
    find("status").textContent = statusOf(ledger);
  } catch (error) {
    find("status").textContent = `Something does not answer: ${error.message}`;
  } finally {
    isBusy = false;
  }
};

const begin = async () => {
  facts = await ask("/page.json");
  find("shuffler").textContent = facts.shuffler;
  find("dashboard").href = facts.dashboard;
  const agreed = find("agreed");
  agreed.checked = localStorage.getItem(CONSENT) === "yes";
  client = new hubbub.Client(facts.shuffler, {
    trust: facts.trust,
    consent: () => agreed.checked,
    minPeriod: null, // the periods of a trial are short
    maxEpsilon: null,
    freshStorage: facts.freshStorage,
  });
  agreed.onchange = async () => {
    localStorage.setItem(CONSENT, agreed.checked ? "yes" : "no");
    if (agreed.checked) await client.enable();
    else await client.flush({ timeout: 0 }); // deletes what was kept
    await refresh();
  };
  find("metrics").replaceChildren(...facts.metrics.map(card));
  find("crowd-panel").hidden = !facts.crowd;
  find("crowd").onclick = async () => {
    const said = find("crowd-said");
    const open = [...seen.values()].map(({ start }) => start).filter((start) => start + facts.period + facts.grace > now() + 5);
    find("crowd").disabled = true;
    said.textContent = "Simulated devices randomize, seal and report ...";
    try {
      const { reports, periods } = await ask("/crowd", { periods: [...new Set([...open, periodAt(now())])].slice(0, 4) });
      said.textContent = reports ? `${reports} reports came, for ${periods.map(moment).join(", ")}. Estimates come when the period has closed.` : "These periods have their crowd already, or are closed.";
    } catch (error) {
      said.textContent = error.message;
    }
    find("crowd").disabled = false;
  };
  find("forget").onclick = async () => {
    agreed.checked = false;
    localStorage.setItem(CONSENT, "no");
    await client.disable();
    find("reports").replaceChildren();
    seen.clear();
    await refresh();
  };
  await refresh();
  setInterval(refresh, 2000);
};

begin().catch((error) => {
  find("status").textContent = `This page could not start: ${error.message}`;
});
