// The fold of PROTOCOL §4 for one turn: frames and time in, a new turn and what to send out.
// No DOM, no timers, no sockets. Field names are those of the wire.

import { sha256Hex } from "./sha256.js";

export const HELD_LIMIT = 100;
export const RESUME_REPEAT_MS = 2000;

const ENDED = new Set(["completed", "failed", "cancelled", "expired", "rejected"]);
const LOGGED = "chat.response.";

/** A user message and what is known of its answer. `key` never changes; ids arrive when known. */
export function newTurn(key, fields) {
  return {
    key,
    message_id: null,
    turn_id: null,
    user_text: "",
    is_masked: false, // the server hid personal data in it
    status: "sent",
    attempt: 0,
    last_seq: -1,
    text: "",
    held: new Map(), // seq → frame of the current attempt that came too early
    resume_sent_at_ms: null,
    cancel_requested: false,
    verified: null, // null until the end, false while the text differs from length or sha256
    path: null,
    position: null,
    wait_ms: null,
    intent: null,
    model: null,
    code: null,
    message: null,
    retryable: false,
    retry_after_ms: null,
    partial: false,
    stop_reason: null,
    usage: null,
    timings: null,
    sources: [],
    ...fields,
  };
}

export function hasEnded(turn) {
  return ENDED.has(turn.status);
}

export function isLogged(frame) {
  return frame.type.startsWith(LOGGED);
}

/**
 * Apply one logged frame. Answers the turn (the same object when nothing changed), the frames to
 * send, and whether the whole text must be fetched over HTTP because the check at the end failed.
 */
export function foldFrame(turn, frame, nowMs) {
  const unchanged = { turn, out: [], fetch: false };
  const apply = APPLIED[frame.type];
  if (hasEnded(turn) || !apply) return unchanged;
  if (isTerminal(frame) && frame.attempt === 0) return ended(apply(turn, frame));
  if (frame.attempt < turn.attempt) return unchanged;
  if (frame.attempt > turn.attempt) turn = restart(turn, frame.attempt);
  if (frame.seq <= turn.last_seq) return { turn, out: [], fetch: false };
  if (frame.seq > turn.last_seq + 1) return askAgain(hold(turn, frame), nowMs);
  return ended(applyInOrder(turn, frame));
}

/** `chat.resume` unless one went out less than 2 s ago. */
export function askAgain(turn, nowMs) {
  const sentAt = turn.resume_sent_at_ms;
  if (sentAt !== null && nowMs - sentAt < RESUME_REPEAT_MS) return { turn, out: [], fetch: false };
  return {
    turn: { ...turn, resume_sent_at_ms: nowMs },
    out: [resumeFrame(turn)],
    fetch: false,
  };
}

export function resumeFrame({ turn_id, last_seq, attempt }) {
  return { type: "chat.resume", turn_id, after_seq: last_seq, attempt };
}

function restart(turn, attempt) {
  return { ...turn, attempt, last_seq: -1, text: "", held: new Map(), status: "streaming" };
}

function hold(turn, frame) {
  // Beyond the limit frames are dropped: the replay that was asked for brings them anyway.
  if (turn.held.has(frame.seq) || turn.held.size >= HELD_LIMIT) return turn;
  return { ...turn, held: new Map(turn.held).set(frame.seq, frame) };
}

function applyInOrder(turn, frame) {
  const held = new Map(turn.held);
  while (frame && !hasEnded(turn)) {
    held.delete(frame.seq);
    turn = { ...APPLIED[frame.type](turn, frame), last_seq: frame.seq };
    frame = held.get(turn.last_seq + 1);
  }
  const gapClosed = held.size === 0;
  return { ...turn, held, resume_sent_at_ms: gapClosed ? null : turn.resume_sent_at_ms };
}

function ended(turn) {
  if (!hasEnded(turn)) return { turn, out: [], fetch: false };
  const done = { ...turn, held: new Map(), resume_sent_at_ms: null, position: null, wait_ms: null };
  return { turn: done, out: [], fetch: done.verified === false };
}

function isTerminal({ type }) {
  return type in APPLIED && type !== "chat.response.started" && type !== "chat.response.delta";
}

function isWhole(text, { length, sha256 }) {
  return Array.from(text).length === length && sha256Hex(text) === sha256;
}

const APPLIED = {
  "chat.response.started": (turn, { path, intent, model }) => ({
    ...turn,
    status: "streaming",
    position: null,
    wait_ms: null,
    path,
    intent,
    model,
  }),
  "chat.response.delta": (turn, { delta }) => ({
    ...turn,
    status: "streaming",
    text: turn.text + delta,
  }),
  "chat.response.completed": (turn, frame) => ({
    ...turn,
    status: "completed",
    stop_reason: frame.stop_reason,
    usage: frame.usage ?? null,
    timings: frame.timings ?? null,
    sources: frame.sources ?? [],
    verified: isWhole(turn.text, frame),
  }),
  "chat.response.failed": (turn, frame) => ({
    ...turn,
    status: "failed",
    text: frame.retract ? "" : turn.text,
    code: frame.code,
    message: frame.message,
    retryable: frame.retryable,
    retry_after_ms: frame.retry_after_ms ?? null,
    partial: Boolean(frame.partial) && !frame.retract,
    stop_reason: frame.stop_reason ?? null,
  }),
  "chat.response.cancelled": (turn, frame) => ({
    ...turn,
    status: "cancelled",
    stop_reason: "cancelled",
    verified: isWhole(turn.text, frame),
  }),
  "chat.response.expired": (turn) => ({ ...turn, status: "expired", retryable: true }),
};
