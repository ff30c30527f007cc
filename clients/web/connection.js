// Keeps one WebSocket of one session alive (PROTOCOL §4.7 and §5): reconnects with full jitter,
// honours reconnect_after_ms, and leaves it when the close code says that trying again is useless.

import { EMPTY, cancel, fetched, lost, receive, refuseUnanswered, send, tick } from "./client.js";

const FIRST_DELAY_MS = 500;
const LONGEST_DELAY_MS = 30_000;
const STABLE_AFTER_MS = 5_000; // a connection that lived this long makes the next delay short again
const PONG_WITHIN_MS = 10_000;
const TICK_MS = 500;

// Closed for a reason that the same attempt would meet again; a person has to act.
const STOPPING_CODES = new Set([4000, 4400, 4401, 4429]);

/**
 * link.state is connecting | online | retrying (link.at_ms) | idle (until the user sends) |
 * stopped (link.code). `options`: url(sessionId), protocols(), fetchText(turnId), isUnauthorised(),
 * onChange(connection), sessionId, and for tests WebSocket, timers, random.
 */
export class Connection {
  state = EMPTY;
  hasHistory = false;
  link = { state: "idle" };
  #options;
  #socket = null;
  #timers = {};
  #failures = 0;
  #goawayAtMs = null;

  constructor(options) {
    this.#options = {
      WebSocket: globalThis.WebSocket,
      timers: {
        now: () => Date.now(),
        set: (callback, delayMs) => globalThis.setTimeout(callback, delayMs),
        clear: (timer) => globalThis.clearTimeout(timer),
      },
      random: Math.random,
      isUnauthorised: async () => false,
      fetchText: async () => null,
      ...options,
    };
    this.state = { ...EMPTY, session_id: options.sessionId ?? null };
  }

  open() {
    if (this.#socket) return;
    this.#clear("retry", "goaway");
    this.#goawayAtMs = null;
    const { WebSocket, url, protocols } = this.#options;
    const socket = new WebSocket(url(this.state.session_id), protocols());
    this.#socket = socket;
    let isReady = false;
    socket.onmessage = ({ data }) => {
      if (socket !== this.#socket) return;
      const frame = JSON.parse(data);
      if (frame.type === "session.ready" && !isReady) {
        isReady = true;
        this.#online(frame);
      }
      this.#heard();
      if (frame.type === "session.goaway") this.#goaway(frame);
      if (frame.type === "chat.history") this.hasHistory = true;
      this.#run(receive(this.state, frame, this.#now()));
    };
    socket.onclose = ({ code, reason }) => {
      if (socket === this.#socket) this.#closed(code, reason, isReady);
    };
    this.#show({ state: "connecting" });
  }

  /** Leave for good; no further onChange. */
  close() {
    this.#clear(...Object.keys(this.#timers));
    this.#options.onChange = () => {};
    this.#drop();
  }

  send(messageId, text) {
    this.#run(send(this.state, messageId, text));
    if (this.link.state === "idle") this.open();
  }

  cancel(messageId) {
    this.#run(cancel(this.state, messageId));
  }

  /** Messages of an earlier page load that may still be unanswered; repeating them is safe. */
  restore(messages) {
    for (const { message_id, text } of messages) this.#run(send(this.state, message_id, text));
  }

  loadHistory(limit) {
    const before = this.state.turns.find((turn) => turn.turn_id)?.turn_id;
    this.#write({ type: "chat.history", limit, ...(before && this.state.more && { before }) });
  }

  /** The network is back or the page is seen again: do not wait for a timer. */
  wake() {
    if (this.link.state === "retrying") this.open();
    else if (this.link.state === "online") this.#ping();
  }

  /** A person asks to connect now. */
  reconnect() {
    if (this.link.state !== "online") this.open();
  }

  #online(frame) {
    this.#set("stable", () => (this.#failures = 0), STABLE_AFTER_MS);
    this.heartbeatMs = frame.heartbeat_ms;
    this.link = { state: "online" };
  }

  #heard() {
    this.#clear("pong");
    this.#set("heartbeat", () => this.#ping(), this.heartbeatMs);
  }

  #ping() {
    this.#write({ type: "ping", nonce: this.#now() });
    this.#set("pong", () => this.#replace(), PONG_WITHIN_MS);
  }

  #goaway({ reconnect_after_ms }) {
    this.#goawayAtMs = this.#now() + reconnect_after_ms;
    this.#set("goaway", () => this.#replace(), reconnect_after_ms);
  }

  /** Give up this socket, whose peer is silent or leaving, for a new one. */
  #replace() {
    this.#drop();
    this.#forget();
    this.open();
  }

  #drop() {
    const socket = this.#socket;
    this.#socket = null;
    socket?.close(1000);
  }

  #forget() {
    this.#clear("heartbeat", "pong", "stable", "tick", "goaway");
    this.state = lost(this.state).state;
  }

  async #closed(code, reason, wasReady) {
    this.#socket = null;
    const goawayAtMs = this.#goawayAtMs;
    this.#forget();
    if (code === 1009) {
      const refused = refuseUnanswered(this.state, "message_too_large", "The message is too long.");
      this.state = refused.state;
    }
    if (STOPPING_CODES.has(code)) return this.#show({ state: "stopped", code, reason });
    if (code === 4408 && !this.state.turns.some((turn) => turn.status === "sent")) {
      return this.#show({ state: "idle" });
    }
    this.#retryIn(goawayAtMs === null ? this.#backOff() : Math.max(0, goawayAtMs - this.#now()));
    // A refused handshake looks to a page like a missing server, so ask over HTTP which it was.
    const isUnauthorised = !wasReady && (await this.#options.isUnauthorised().catch(() => false));
    if (isUnauthorised && this.link.state === "retrying") {
      this.#clear("retry");
      this.#show({ state: "stopped", code: 4401, reason: "" });
    }
  }

  #retryIn(delayMs) {
    this.#set("retry", () => this.open(), delayMs);
    this.#show({ state: "retrying", at_ms: this.#now() + delayMs });
  }

  #backOff() {
    const ceiling = Math.min(LONGEST_DELAY_MS, FIRST_DELAY_MS * 2 ** this.#failures);
    this.#failures += 1;
    return Math.round(this.#options.random() * ceiling);
  }

  #run({ state, out, fetch }) {
    this.state = state;
    for (const frame of out) this.#write(frame);
    for (const turnId of fetch) this.#fetch(turnId);
    if (state.turns.some((turn) => turn.resume_sent_at_ms !== null) && !this.#timers.tick) {
      this.#set("tick", () => this.#run(tick(this.state, this.#now())), TICK_MS);
    }
    this.#options.onChange(this);
  }

  async #fetch(turnId) {
    const text = await this.#options.fetchText(turnId).catch(() => null);
    this.#run(fetched(this.state, turnId, text));
  }

  #write(frame) {
    if (this.#socket?.readyState === 1) this.#socket.send(JSON.stringify(frame));
  }

  #show(link) {
    this.link = link;
    this.#options.onChange(this);
  }

  #now() {
    return this.#options.timers.now();
  }

  #set(name, callback, delayMs) {
    this.#clear(name);
    this.#timers[name] = this.#options.timers.set(() => {
      delete this.#timers[name];
      callback();
    }, delayMs);
  }

  #clear(...names) {
    for (const name of names) {
      if (name in this.#timers) this.#options.timers.clear(this.#timers[name]);
      delete this.#timers[name];
    }
  }
}
