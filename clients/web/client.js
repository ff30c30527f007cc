// A conversation as a client sees it (PROTOCOL §4): a pure fold over user actions, frames and time.
// Every function answers { state, out, fetch }: the new state, frames to send in order, and the
// turn ids whose text must be fetched with GET /v1/turns/{turn_id}. States are never mutated.

import { RESUME_REPEAT_MS, askAgain, foldFrame, hasEnded, isLogged, newTurn } from "./reducer.js";

export { hasEnded } from "./reducer.js";

export const EMPTY = Object.freeze({
  connected: false,
  session_id: null,
  turns: [], // oldest first
  more: false, // earlier turns exist on the server
  next_key: 1,
});

/** The user says something. Sent at once when connected, else after the next session.ready. */
export function send(state, messageId, text) {
  const index = state.turns.findIndex((turn) => turn.message_id === messageId);
  if (index >= 0 && state.turns[index].status !== "rejected") return quiet(state);
  // A rejected message was never accepted: the same id may be used, and takes the newest place.
  const kept = state.turns.filter((_, at) => at !== index);
  const next = add({ ...state, turns: kept }, { message_id: messageId, user_text: text });
  return { ...quiet(next), out: state.connected ? [sendFrame(next.turns.at(-1))] : [] };
}

/** The user presses stop. A message that has no turn id yet is stopped as soon as it has one. */
export function cancel(state, messageId) {
  const index = state.turns.findIndex((turn) => turn.message_id === messageId);
  const turn = state.turns[index];
  if (!turn || hasEnded(turn)) return quiet(state);
  const next = replace(state, index, { ...turn, cancel_requested: true });
  return { ...quiet(next), out: state.connected && turn.turn_id ? [cancelFrame(turn)] : [] };
}

/** The connection is gone; nothing is outstanding any more. */
export function lost(state) {
  const turns = state.turns.map((turn) => ({ ...turn, resume_sent_at_ms: null }));
  return quiet({ ...state, connected: false, turns });
}

/** No message without an answer will be taken as it is: the connection was closed because of it. */
export function refuseUnanswered(state, code, message) {
  const end = { status: "rejected", code, message, retryable: true };
  return each(state, (turn) =>
    turn.turn_id || hasEnded(turn) ? null : { turn: { ...turn, ...end }, out: [] },
  );
}

/** Time passes: repeats each chat.resume that had no effect for 2 s. */
export function tick(state, nowMs) {
  if (!state.connected) return quiet(state);
  return each(state, (turn) => {
    const sentAt = turn.resume_sent_at_ms;
    if (hasEnded(turn) || sentAt === null || nowMs - sentAt < RESUME_REPEAT_MS) return null;
    return askAgain(turn, nowMs);
  });
}

/** The text of an ended turn came over HTTP; `text` is null when it could not be had. */
export function fetched(state, turnId, text) {
  return update(state, turnId, (turn) =>
    text === null ? null : { turn: { ...turn, text, verified: true }, out: [] },
  );
}

/** One frame of the server. Unknown types and unknown fields are ignored. */
export function receive(state, frame, nowMs) {
  if (isLogged(frame)) {
    const known = ensure(state, frame.turn_id, null);
    return update(known, frame.turn_id, (turn) => foldFrame(turn, frame, nowMs));
  }
  return RECEIVED[frame.type]?.(state, frame, nowMs) ?? quiet(state);
}

const RECEIVED = {
  "session.ready": ready,
  "chat.accepted": accepted,
  "chat.rejected": (state, frame) => refused(state, frame.message_id, frame),
  "chat.queued": (state, { turn_id, wait_ms }) =>
    update(state, turn_id, (turn) =>
      hasEnded(turn) || turn.status === "streaming"
        ? null
        : { turn: { ...turn, status: "queued", position: null, wait_ms }, out: [] },
    ),
  "chat.resumed": (state, { turn_id }) =>
    update(state, turn_id, (turn) =>
      // While frames are held the gap is still open, so the request stays outstanding.
      turn.held.size ? null : { turn: { ...turn, resume_sent_at_ms: null }, out: [] },
    ),
  "chat.history": history,
  error: (state, frame) => {
    if (frame.message_id) return refused(state, frame.message_id, frame);
    if (frame.code !== "unknown_turn" || !frame.turn_id) return quiet(state);
    return update(state, frame.turn_id, (turn) =>
      hasEnded(turn) ? null : { turn: { ...turn, ...unknownTurn(turn, frame) }, out: [] },
    );
  },
};

function ready(state, { session_id, running }, nowMs) {
  let next = { ...state, connected: true, session_id };
  for (const { turn_id, message_id } of running) next = ensure(next, turn_id, message_id);
  const unanswered = next.turns.filter((turn) => turn.status === "sent" && !turn.turn_id);
  const resumed = each(next, (turn) => {
    if (hasEnded(turn) || !turn.turn_id) return null;
    const status = turn.status === "sent" ? "accepted" : turn.status;
    return askAgain({ ...turn, status, resume_sent_at_ms: null }, nowMs);
  });
  const stopping = next.turns.filter((t) => t.cancel_requested && t.turn_id && !hasEnded(t));
  return {
    ...resumed,
    out: [...unanswered.map(sendFrame), ...resumed.out, ...stopping.map(cancelFrame)],
  };
}

function accepted(state, { message_id, turn_id, path, position, text }) {
  return update(ensure(state, turn_id, message_id), turn_id, (said) => {
    // With a text the server hid personal data: from here on nothing keeps what was typed.
    const turn = text === undefined ? said : { ...said, user_text: text, is_masked: true };
    if (!["sent", "accepted", "waiting"].includes(turn.status)) return { turn, out: [] };
    const status = path === "waiting" ? "waiting" : "accepted";
    const stop = turn.cancel_requested && turn.status === "sent";
    const next = { ...turn, status, path, position: position ?? null };
    return { turn: next, out: stop ? [cancelFrame(next)] : [] };
  });
}

function refused(state, messageId, { code, message, retry_after_ms }) {
  const index = state.turns.findIndex((turn) => turn.message_id === messageId);
  const turn = state.turns[index];
  // A message that became a turn can no longer be refused; this answers a repeat of it.
  if (!turn || turn.turn_id || hasEnded(turn)) return quiet(state);
  const end = { status: "rejected", code, message, retryable: true };
  return quiet(replace(state, index, { ...turn, ...end, retry_after_ms: retry_after_ms ?? null }));
}

function history(state, { turns: page, more }) {
  const turns = [...state.turns];
  let at = 0; // where the next turn that is not known yet belongs
  let nextKey = state.next_key;
  for (const stored of [...page].reverse()) {
    const index = turns.findIndex((turn) => isSame(turn, stored.turn_id, stored.message_id));
    if (index < 0) {
      turns.splice(at++, 0, fromHistory(newTurn(nextKey++, {}), stored));
    } else {
      const known = turns[index];
      const adopt = !hasEnded(known) && known.last_seq < 0;
      turns[index] = adopt
        ? fromHistory(known, stored)
        : { ...known, user_text: stored.user_text || known.user_text };
      at = index + 1;
    }
  }
  return quiet({ ...state, turns, more, next_key: nextKey });
}

function fromHistory(turn, stored) {
  return {
    ...turn,
    turn_id: stored.turn_id,
    message_id: stored.message_id,
    user_text: stored.user_text,
    text: stored.assistant_text,
    stop_reason: stored.stop_reason,
    path: stored.path || turn.path,
    intent: stored.intent || null,
    model: stored.model || null,
    usage: stored.usage ?? null,
    timings: stored.timings ?? null,
    sources: stored.sources ?? [],
    status: stored.stop_reason === "cancelled" ? "cancelled" : "completed",
    resume_sent_at_ms: null,
    position: null,
    wait_ms: null,
    verified: true,
  };
}

function unknownTurn(turn, { message }) {
  return {
    status: "failed",
    code: "unknown_turn",
    message,
    retryable: true,
    partial: turn.text !== "",
    held: new Map(),
    resume_sent_at_ms: null,
  };
}

function isSame(turn, turnId, messageId) {
  return turn.turn_id === turnId || (messageId !== null && turn.message_id === messageId);
}

function ensure(state, turnId, messageId) {
  const index = state.turns.findIndex((turn) => isSame(turn, turnId, messageId));
  if (index < 0) {
    return add(state, { turn_id: turnId, message_id: messageId, status: "accepted" });
  }
  const turn = state.turns[index];
  if (turn.turn_id && turn.message_id) return state;
  return replace(state, index, {
    ...turn,
    turn_id: turn.turn_id ?? turnId,
    message_id: turn.message_id ?? messageId,
  });
}

function add(state, fields) {
  const turn = newTurn(state.next_key, fields);
  return { ...state, next_key: state.next_key + 1, turns: [...state.turns, turn] };
}

function replace(state, index, turn) {
  const turns = [...state.turns];
  turns[index] = turn;
  return { ...state, turns };
}

/** Change one turn through `change`, which answers { turn, out, fetch } or null for no change. */
function update(state, turnId, change) {
  const index = state.turns.findLastIndex((turn) => turn.turn_id === turnId);
  const result = index < 0 ? null : change(state.turns[index]);
  if (!result) return quiet(state);
  return {
    state: result.turn === state.turns[index] ? state : replace(state, index, result.turn),
    out: result.out,
    fetch: result.fetch ? [turnId] : [],
  };
}

function each(state, change) {
  const out = [];
  const turns = state.turns.map((turn) => {
    const result = change(turn);
    if (result) out.push(...result.out);
    return result ? result.turn : turn;
  });
  return { state: { ...state, turns }, out, fetch: [] };
}

function quiet(state) {
  return { state, out: [], fetch: [] };
}

function sendFrame({ message_id, user_text }) {
  return { type: "chat.send", message_id, text: user_text };
}

function cancelFrame({ turn_id }) {
  return { type: "chat.cancel", turn_id };
}
