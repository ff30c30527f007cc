// Puts the page together: one connection per session in use, one view per turn.

import { hasEnded } from "./client.js";
import { Composer } from "./composer.js";
import { Connection } from "./connection.js";
import { LinkView } from "./link_view.js";
import { Settings, toggleTheme } from "./settings.js";
import { Sidebar } from "./sidebar.js";
import { SessionStore, newId, readIdentity } from "./store.js";
import { TurnView } from "./turn_view.js";

const HISTORY_PAGE = 20;
const NEAR_END_PX = 96;
const SPOKEN_LIMIT = 2000;

class Page {
  #identity = readIdentity();
  #store = new SessionStore(this.#identity.user);
  #connections = new Map(); // session id → Connection; others than the current until their answers end
  #current = null;
  #views = new Map(); // turn key → TurnView
  #retried = new Set(); // keys of turns that were asked again
  #statuses = new Map(); // turn key → status that was announced
  #follows = true; // the newest words stay in sight
  #isDrawPending = false;
  #drawnSessions = "";
  #scroller = byId("scroller");
  #sidebar = new Sidebar({
    open: (id) => this.#open(id),
    create: () => this.#open(newId("s")),
    remove: (id) => this.#remove(id),
  });
  #settings = new Settings(() => {
    location.hash = "";
    location.reload();
  });
  #link = new LinkView({
    reconnect: () => this.#current.reconnect(),
    signIn: () => this.#settings.open(),
    announce,
  });
  #composer = new Composer({
    onSend: (text) => this.#send(text),
    onStop: () => this.#stop(),
    onResize: () => this.#keepEnd(),
  });

  start() {
    showAssistant();
    byId("person-name").textContent = this.#identity.user ?? "Guest";
    byId("person-initial").textContent = [...(this.#identity.user ?? "G")][0].toUpperCase();
    byId("open-settings").addEventListener("click", () => this.#settings.open());
    byId("toggle-theme").addEventListener("click", toggleTheme);
    byId("load-earlier").addEventListener("click", () => this.#current.loadHistory(HISTORY_PAGE));
    byId("to-latest").addEventListener("click", () => this.#toEnd());
    byId("suggestions").addEventListener("click", ({ target }) => {
      if (target.closest("button")) this.#send(target.closest("button").textContent);
    });
    this.#scroller.addEventListener("scroll", () => this.#scrolled(), { passive: true });
    addEventListener("hashchange", () => this.#open(location.hash.slice(1)));
    addEventListener("online", () => this.#current.wake());
    document.addEventListener("visibilitychange", () => document.hidden || this.#current.wake());
    document.addEventListener("keydown", (event) => this.#key(event));
    this.#open(location.hash.slice(1) || this.#store.list()[0]?.id || newId("s"));
  }

  #key(event) {
    if (event.key !== "Escape" || event.isComposing || document.querySelector("dialog[open]")) return;
    if (this.#sidebar.isOpen) this.#sidebar.close();
    else this.#stop();
  }

  #open(id) {
    if (!/^[A-Za-z0-9_-]{1,64}$/.test(id)) id = newId("s");
    if (this.#current?.sessionId === id) return this.#composer.focus();
    const left = this.#current;
    const kept = this.#connections.get(id);
    this.#current = kept ?? this.#connection(id);
    if (!kept) {
      this.#current.restore(this.#store.unanswered(id, Date.now()));
      this.#current.open();
    }
    if (left) this.#leave(left);
    history.replaceState(null, "", `#${id}`);
    for (const view of this.#views.values()) view.remove();
    this.#views.clear();
    this.#statuses.clear();
    this.#retried.clear();
    this.#follows = true;
    this.#draw();
    if (!matchMedia("(pointer: coarse)").matches) this.#composer.focus();
  }

  #connection(id) {
    const { token } = this.#identity;
    const headers = token ? { authorization: `Bearer ${token}` } : {};
    const getTurn = (turnId) =>
      fetch(`/v1/turns/${encodeURIComponent(turnId)}`, {
        headers,
        signal: AbortSignal.timeout(10_000),
      });
    const connection = new Connection({
      sessionId: id,
      url: (sessionId) =>
        `${location.origin.replace(/^http/, "ws")}/ws?session_id=${encodeURIComponent(sessionId)}`,
      protocols: () => ["burstchat.v1", ...(token ? [`bearer.${token}`] : [])],
      fetchText: async (turnId) => {
        const answer = await getTurn(turnId);
        return answer.ok ? ((await answer.json()).text ?? null) : null;
      },
      isUnauthorised: async () => [401, 403].includes((await getTurn("none")).status),
      onChange: (changed) => this.#changed(changed),
    });
    connection.sessionId = id;
    this.#connections.set(id, connection);
    return connection;
  }

  /** A session that is left keeps its connection until its answers are complete. */
  #leave(connection) {
    if (connection === this.#current || isBusy(connection)) return;
    connection.close();
    this.#connections.delete(connection.sessionId);
  }

  #remove(id) {
    const connection = this.#connections.get(id);
    this.#store.remove(id);
    if (connection === this.#current) this.#open(newId("s"));
    connection?.close();
    this.#connections.delete(id);
    this.#draw();
  }

  #changed(connection) {
    if (connection.link.state === "online" && !connection.askedHistory) {
      connection.askedHistory = true;
      connection.loadHistory(HISTORY_PAGE);
    }
    const open = connection.state.turns.filter((turn) => !hasEnded(turn) && turn.user_text);
    const signature = open.map((turn) => turn.message_id).join();
    if (connection.keptUnanswered !== signature) {
      connection.keptUnanswered = signature;
      const messages = open.map(({ message_id, user_text }) => ({ message_id, text: user_text }));
      this.#store.keepUnanswered(connection.sessionId, messages, Date.now());
    }
    if (connection !== this.#current) this.#leave(connection);
    this.#draw();
  }

  #send(text) {
    this.#store.touch(this.#current.sessionId, text, Date.now());
    this.#follows = true;
    this.#current.send(newId("m"), text);
    this.#composer.focus();
  }

  #retry(turn) {
    this.#follows = true;
    // A message that was never accepted keeps its id; an ended turn needs a new one.
    if (turn.status === "rejected") return this.#current.send(turn.message_id, turn.user_text);
    this.#retried.add(turn.key);
    this.#send(turn.user_text);
  }

  #stop() {
    const turn = this.#current.state.turns.find((each) => !hasEnded(each));
    if (turn?.message_id) this.#current.cancel(turn.message_id);
  }

  /** Draws once per frame, however many frames of the server came meanwhile. */
  #draw() {
    if (this.#isDrawPending) return;
    this.#isDrawPending = true;
    requestAnimationFrame(() => {
      this.#isDrawPending = false;
      this.#drawNow();
    });
  }

  #drawNow() {
    const { state, link } = this.#current;
    this.#link.show(link);
    this.#drawTurns(state);
    const isNew = !this.#store.has(this.#current.sessionId) || this.#current.hasHistory;
    byId("welcome").hidden = state.turns.length > 0 || !isNew;
    byId("load-earlier").hidden = !state.more;
    this.#composer.showStop(state.turns.some((turn) => !hasEnded(turn) && turn.message_id));
    const busy = [...this.#connections.values()].filter(isBusy);
    this.#drawSessions(new Set(busy.map((connection) => connection.sessionId)));
  }

  #drawSessions(busy) {
    const sessions = this.#store.list();
    const current = sessions.find(({ id }) => id === this.#current.sessionId);
    byId("title").textContent = current?.title ?? "New conversation";
    const drawn = JSON.stringify([sessions, this.#current.sessionId, [...busy]]);
    if (drawn === this.#drawnSessions) return;
    this.#drawnSessions = drawn;
    this.#sidebar.show(sessions, this.#current.sessionId, busy);
  }

  #drawTurns({ turns, connected }) {
    const list = byId("turns");
    const heightBefore = this.#scroller.scrollHeight;
    const firstBefore = list.firstChild;
    const kept = new Set(turns.map((turn) => turn.key));
    for (const [key, view] of this.#views) {
      if (kept.has(key)) continue;
      view.remove();
      this.#views.delete(key);
    }
    let ahead = 0;
    turns.forEach((turn, index) => {
      const view = this.#viewOf(turn);
      if (list.children[index] !== view.element) list.insertBefore(view.element, list.children[index]);
      view.update(turn, { ahead, connected, retried: this.#retried.has(turn.key) });
      if (!hasEnded(turn)) ahead += 1;
      this.#announce(turn, view);
    });
    const addedAbove = firstBefore && list.firstChild !== firstBefore;
    if (this.#follows) this.#keepEnd();
    else if (addedAbove) this.#scroller.scrollTop += this.#scroller.scrollHeight - heightBefore;
    this.#scrolled();
  }

  #viewOf(turn) {
    const known = this.#views.get(turn.key);
    if (known) return known;
    const view = new TurnView({
      retry: (ended) => this.#retry(ended),
      cancel: ({ message_id }) => this.#current.cancel(message_id),
    });
    this.#views.set(turn.key, view);
    return view;
  }

  /** Speaks when an answer begins and when it is whole, not with every word. */
  #announce(turn, view) {
    const before = this.#statuses.get(turn.key);
    if (before === turn.status) return;
    this.#statuses.set(turn.key, turn.status);
    if (!before) return; // from history, or just written by the user
    if (turn.status === "streaming") announce("Answering.");
    else if (turn.status === "completed") announce(view.spokenText.slice(0, SPOKEN_LIMIT));
    else if (turn.status === "cancelled") announce("Stopped.");
    else if (hasEnded(turn)) announce(turn.message ?? "No answer came.");
  }

  #scrolled() {
    const { scrollTop, scrollHeight, clientHeight } = this.#scroller;
    this.#follows = scrollHeight - scrollTop - clientHeight < NEAR_END_PX;
    byId("to-latest").hidden = this.#follows;
  }

  #keepEnd() {
    if (this.#follows) this.#scroller.scrollTop = this.#scroller.scrollHeight;
  }

  #toEnd() {
    this.#scroller.scrollTo({ top: this.#scroller.scrollHeight, behavior: "smooth" });
    this.#composer.focus();
  }
}

function isBusy({ state }) {
  return state.turns.some((turn) => !hasEnded(turn));
}

function announce(text) {
  byId("announcer").textContent = text;
}

/** The assistant's own words come from the server, so that the page serves any assistant. */
async function showAssistant() {
  const assistant = await fetch("/assistant.json")
    .then((answer) => (answer.ok ? answer.json() : {}))
    .catch(() => ({}));
  for (const element of document.querySelectorAll("[data-assistant]")) {
    const words = assistant[element.dataset.assistant];
    if (words) element.textContent = words;
  }
  if (assistant.name) {
    document.title = assistant.name;
    byId("composer-text").placeholder = `Message ${assistant.name}`;
  }
  const items = (assistant.suggestions ?? []).map((text) => {
    const item = document.createElement("li");
    const chip = document.createElement("button");
    chip.type = "button";
    chip.textContent = text;
    item.append(chip);
    return item;
  });
  byId("suggestions").replaceChildren(...items);
}

function byId(id) {
  return document.getElementById(id);
}

new Page().start();
