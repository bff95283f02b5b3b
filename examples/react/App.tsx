import { StrictMode, useEffect, useState } from "react";
import { createRoot } from "react-dom/client";

import { answer, setAnswer, telemetry } from "./telemetry.ts";

const Privacy = () => {
  const [given, setGiven] = useState(answer);
  const [kept, setKept] = useState("");
  const give = async (text: "yes" | "no") => {
    await setAnswer(text);
    setGiven(text);
    setKept("");
  };
  const show = async () => {
    const { previewInWords, ledgerInWords } = await import("hubbub-client/words"); // loaded only when someone looks
    setKept([previewInWords(await telemetry.preview()), ledgerInWords(await telemetry.ledger())].join("\n"));
  };
  return (
    <section>
      <h2>Privacy</h2>
      <p>
        May your browser send randomized reports? Each of them may be untrue, so none proves anything about you. Your
        answer: {given ?? "none yet"}
      </p>
      <button onClick={() => give("yes")}>Yes</button> <button onClick={() => give("no")}>No</button>{" "}
      <button onClick={show}>Show what is kept</button>
      <pre>{kept}</pre>
    </section>
  );
};

export const App = () => {
  useEffect(() => {
    // strict mode runs effects twice in development; a mean of two equal values is the same
    const [navigation] = performance.getEntriesByType("navigation");
    if (navigation) telemetry.record("load_ms", navigation.duration);
  }, []);
  return (
    <main>
      <h1>Photos</h1>
      <button onClick={() => telemetry.record("search_used", true)}>Search</button>{" "}
      <label>
        Theme{" "}
        <select onChange={(event) => telemetry.record("theme", event.target.value)}>
          <option>light</option>
          <option>dark</option>
          <option>system</option>
        </select>
      </label>
      <Privacy />
    </main>
  );
};

createRoot(document.getElementById("root")!).render(
  <StrictMode>
    <App />
  </StrictMode>,
);
