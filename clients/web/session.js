// One session in use: its connection, its first page of history, and what survives a reload.

import { hasEnded } from "./client.js";
import { Connection } from "./connection.js";
import { newId } from "./store.js";

const HISTORY_PAGE = 20;
const FETCH_TIMEOUT_MS = 10_000;

export class Session {
  /** `onChange(session)` after every change of turns or link. */
  constructor({ id, token, store, onChange }) {
    this.id = id;
    this.#store = store;
    this.#onChange = onChange;
    const get = (path) =>
      fetch(path, {
        headers: token ? { authorization: `Bearer ${token}` } : {},
        signal: AbortSignal.timeout(FETCH_TIMEOUT_MS),
      });
    this.#connection = new Connection({
      sessionId: id,
      url: (sessionId) =>
        `${location.origin.replace(/^http/, "ws")}/ws?session_id=${encodeURIComponent(sessionId)}`,
      protocols: () => ["burstchat.v1", ...(token ? [`bearer.${token}`] : [])],
      fetchText: async (turnId) => {
        const answer = await get(`/v1/turns/${encodeURIComponent(turnId)}`);
        return answer.ok ? ((await answer.json()).text ?? null) : null;
      },
      isUnauthorised: async () => {
        // No session has this name, so nothing but the token is looked at: in a storm everybody asks.
        const answer = await get("/v1/sessions/%20/turns");
        return answer.status === 401 || answer.status === 403;
      },
      onChange: () => this.#changed(),
    });
  }

  #connection;
  #store;
  #onChange;
  #hasAskedHistory = false;
  #keptIds = "";
  #isNamed = false;

  get state() {
    return this.#connection.state;
  }

  get link() {
    return this.#connection.link;
  }

  /** True once it is known what the server holds of this session. */
  get isLoaded() {
    return this.#connection.hasHistory || !this.#store.has(this.id);
  }

  get isBusy() {
    return this.state.turns.some((turn) => !hasEnded(turn));
  }

  open() {
    this.#connection.restore(this.#store.unanswered(this.id, Date.now()));
    this.#connection.open();
  }

  close() {
    this.#connection.close();
  }

  reconnect() {
    this.#connection.reconnect();
  }

  wake() {
    this.#connection.wake();
  }

  say(text) {
    this.#store.touch(this.id, Date.now());
    this.#connection.send(newId("m"), text);
  }

  /** Send a message again that was not accepted, with its own id. */
  repeat({ message_id, user_text }) {
    this.#connection.send(message_id, user_text);
  }

  cancel({ message_id }) {
    if (message_id) this.#connection.cancel(message_id);
  }

  /** Stop the answer that is running, or the message that comes next. */
  stop() {
    const turn = this.state.turns.find((each) => !hasEnded(each));
    if (turn) this.cancel(turn);
  }

  loadEarlier() {
    this.#connection.loadHistory(HISTORY_PAGE);
  }

  #changed() {
    if (this.link.state === "online" && !this.#hasAskedHistory) {
      this.#hasAskedHistory = true;
      this.loadEarlier();
    }
    this.#keepName();
    this.#keepUnanswered();
    this.#onChange(this);
  }

  /** Not before the server has said how it keeps the message: it may hide personal data. */
  #keepName() {
    if (this.#isNamed) return;
    const first = this.state.turns.find((turn) => turn.turn_id && turn.user_text);
    if (!first) return;
    this.#isNamed = true;
    this.#store.name(this.id, first.user_text);
  }

  #keepUnanswered() {
    const open = this.state.turns.filter((turn) => !hasEnded(turn) && turn.user_text);
    const ids = open.map((turn) => `${turn.message_id} ${turn.turn_id}`).join();
    if (ids === this.#keptIds) return; // most changes are words of an answer
    this.#keptIds = ids;
    const messages = open.map(({ message_id, user_text }) => ({ message_id, text: user_text }));
    this.#store.keepUnanswered(this.id, messages, Date.now());
  }
}
