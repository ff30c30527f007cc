// Runs client_cases.json over the JavaScript reducer: prints one JSON line per case,
// {"name", "steps": [{"out", "fetch"}], "state": {...}}; the test that starts it compares.

import { readFileSync } from "node:fs";
import { EMPTY, cancel, fetched, lost, receive, send, tick } from "../../clients/web/client.js";

const DO = {
  send: (state, step) => send(state, step.message_id, step.text),
  cancel: (state, step) => cancel(state, step.message_id),
  lost: (state) => lost(state),
  tick: (state, step) => tick(state, step.at_ms),
  fetched: (state, step) => fetched(state, step.turn_id, step.text),
  receive: (state, step) => receive(state, step.frame, step.at_ms),
  receive_deltas: (state, { turn_id, attempt, from_seq, to_seq, delta, at_ms }) => {
    const all = { state, out: [], fetch: [] };
    for (let seq = from_seq; seq <= to_seq; seq++) {
      const frame = { type: "chat.response.delta", turn_id, attempt, seq, delta };
      const result = receive(all.state, frame, at_ms);
      all.state = result.state;
      all.out.push(...result.out);
      all.fetch.push(...result.fetch);
    }
    return all;
  },
};

function freeze(value) {
  // A fold that mutates its input fails here, since modules are strict code.
  if (value && typeof value === "object" && !Object.isFrozen(value)) {
    Object.freeze(value);
    Object.values(value).forEach(freeze);
  }
  return value;
}

const path = new URL("client_cases.json", import.meta.url);
for (const { name, steps } of JSON.parse(readFileSync(path, "utf8")).cases) {
  let state = EMPTY;
  const results = steps.map((step) => {
    const result = DO[step.do](freeze(state), step);
    state = result.state;
    return { out: result.out, fetch: result.fetch };
  });
  const turns = state.turns.map((turn) => ({ ...turn, held: turn.held.size }));
  console.log(JSON.stringify({ name, steps: results, state: { ...state, turns } }));
}
