// A page as CopilotKit's documents have it: its chat, and a form of one's own for interrupts.
import { CopilotChat, CopilotKit, useInterrupt } from "@copilotkit/react-core/v2";
import "@copilotkit/react-core/v2/styles.css";
import { useState } from "react";
import { createRoot } from "react-dom/client";

function Question({ interrupt, resolve, cancel }) {
  const [words, setWords] = useState("");
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        resolve(words || true);
      }}
    >
      <h2>{interrupt.reason}</h2>
      <p>{interrupt.message}</p>
      <input aria-label="Words" value={words} onChange={(event) => setWords(event.target.value)} />
      <button type="submit">Answer</button>
      <button type="button" onClick={() => cancel()}>
        Cancel
      </button>
    </form>
  );
}

function Page() {
  useInterrupt({ render: (asked) => <Question {...asked} /> });
  return <CopilotChat />;
}

createRoot(document.getElementById("page")).render(
  <CopilotKit runtimeUrl="/api/copilotkit" agent="default">
    <Page />
  </CopilotKit>,
);
