// Puts the page together: sessions, the list of turns, the message field and what surrounds them.

import { showAssistant } from "./assistant.js";
import { Composer } from "./composer.js";
import { LinkView } from "./link_view.js";
import { Session } from "./session.js";
import { Settings, toggleTheme } from "./settings.js";
import { Sidebar } from "./sidebar.js";
import { SessionStore, newId, readIdentity } from "./store.js";
import { TurnList } from "./turn_list.js";

const SESSION_ID = /^[A-Za-z0-9_-]{1,64}$/;

class Page {
  #identity = readIdentity();
  #store = new SessionStore(this.#identity.user);
  #sessions = new Map(); // id → Session: the current one, and those whose answers still arrive
  #current = null;
  #isDrawPending = false;
  #drawnSessions = "";
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
  #turns = new TurnList({
    // A message that was never accepted keeps its id; an ended turn needs a new one.
    retry: (turn) => (turn.status === "rejected" ? this.#current.repeat(turn) : this.#say(turn.user_text)),
    cancel: (turn) => this.#current.cancel(turn),
    announce,
  });
  #composer = new Composer({
    onSend: (text) => this.#say(text),
    onStop: () => this.#current.stop(),
    onResize: () => this.#turns.keepEnd(),
  });

  start() {
    showAssistant();
    byId("person-name").textContent = this.#identity.user ?? "Guest";
    byId("person-initial").textContent = [...(this.#identity.user ?? "G")][0].toUpperCase();
    byId("open-settings").addEventListener("click", () => this.#settings.open());
    byId("toggle-theme").addEventListener("click", toggleTheme);
    byId("load-earlier").addEventListener("click", () => this.#current.loadEarlier());
    byId("to-latest").addEventListener("click", () => {
      this.#turns.toEnd();
      this.#composer.focus();
    });
    byId("suggestions").addEventListener("click", ({ target }) => {
      if (target.closest("button")) this.#say(target.closest("button").textContent);
    });
    addEventListener("hashchange", () => this.#open(location.hash.slice(1)));
    addEventListener("online", () => this.#current.wake());
    document.addEventListener("visibilitychange", () => document.hidden || this.#current.wake());
    document.addEventListener("keydown", (event) => this.#key(event));
    this.#open(location.hash.slice(1) || this.#store.list()[0]?.id || newId("s"));
  }

  #key(event) {
    if (event.key !== "Escape" || event.isComposing) return;
    if (document.querySelector("dialog[open]")) return; // closes itself
    if (this.#sidebar.isOpen) this.#sidebar.close();
    else this.#current.stop();
  }

  #open(wanted) {
    const id = SESSION_ID.test(wanted) ? wanted : newId("s");
    const left = this.#current;
    if (left?.id === id) return;
    this.#current = this.#sessions.get(id) ?? this.#create(id);
    history.replaceState(null, "", `#${id}`);
    this.#turns.clear();
    if (left) this.#release(left);
    this.#draw();
    // On a touch screen focus would bring up the keyboard over half of the page.
    if (!matchMedia("(pointer: coarse)").matches) this.#composer.focus();
  }

  #create(id) {
    const session = new Session({
      id,
      token: this.#identity.token,
      store: this.#store,
      onChange: (changed) => {
        if (changed !== this.#current) this.#release(changed);
        this.#draw();
      },
    });
    this.#sessions.set(id, session);
    this.#current = session;
    session.open();
    return session;
  }

  /** A session that is left stays connected until its answers are complete. */
  #release(session) {
    if (session.isBusy) return;
    session.close();
    this.#sessions.delete(session.id);
  }

  #remove(id) {
    const session = this.#sessions.get(id);
    this.#store.remove(id);
    if (session === this.#current) this.#open(newId("s"));
    session?.close();
    this.#sessions.delete(id);
    this.#draw();
  }

  #say(text) {
    this.#turns.follow();
    this.#current.say(text);
    this.#composer.focus();
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
    const { state, link, isLoaded, isBusy } = this.#current;
    this.#link.show(link);
    byId("welcome").hidden = state.turns.length > 0 || !isLoaded;
    byId("load-earlier").hidden = !state.more;
    this.#composer.showStop(isBusy);
    this.#turns.show(state);
    this.#drawSessions();
  }

  #drawSessions() {
    const listed = this.#store.list();
    const current = listed.find(({ id }) => id === this.#current.id);
    const busy = [...this.#sessions.values()].filter(({ isBusy }) => isBusy).map(({ id }) => id);
    byId("title").textContent = current?.title ?? "New conversation";
    const drawn = JSON.stringify([listed, this.#current.id, busy]);
    if (drawn === this.#drawnSessions) return;
    this.#drawnSessions = drawn;
    this.#sidebar.show(listed, this.#current.id, new Set(busy));
  }
}

function announce(text) {
  byId("announcer").textContent = text;
}

function byId(id) {
  return document.getElementById(id);
}

new Page().start();
