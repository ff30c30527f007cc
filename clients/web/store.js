// What the page keeps on this device: the list of sessions, messages that may still be unanswered,
// the theme; and for this tab only, who is signed in.

const SESSIONS_LIMIT = 100;
const TITLE_LIMIT = 80;
// Safe to repeat for 24 h, but a message that surfaces hours later would surprise its writer.
const UNANSWERED_FOR_MS = 60 * 60 * 1000;

/** A new random id that is valid as session id and message id. */
export function newId(prefix) {
  const bytes = crypto.getRandomValues(new Uint8Array(12));
  return prefix + Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

export function readTheme() {
  return read(localStorage, "burstchat.theme") ?? "system";
}

export function writeTheme(theme) {
  write(localStorage, "burstchat.theme", theme === "system" ? null : theme);
}

/** { token, user }, both null for an anonymous visitor. */
export function readIdentity() {
  const token = read(sessionStorage, "burstchat.token");
  return { token, user: token && (read(sessionStorage, "burstchat.user") ?? subject(token)) };
}

export function writeIdentity(token, user = null) {
  write(sessionStorage, "burstchat.token", token);
  write(sessionStorage, "burstchat.user", user);
}

/** The sessions of one user, the newest first: { id, title, used_at_ms }. */
export class SessionStore {
  constructor(user) {
    this.#prefix = `burstchat.${user ?? ""}`;
  }

  #prefix;

  list() {
    return readJson(`${this.#prefix}.sessions`, []);
  }

  has(id) {
    return this.list().some((session) => session.id === id);
  }

  /** A message was said: the session comes first. */
  touch(id, nowMs) {
    const sessions = this.list();
    const title = sessions.find((session) => session.id === id)?.title ?? null;
    const others = sessions.filter((session) => session.id !== id);
    this.#write("sessions", [{ id, title, used_at_ms: nowMs }, ...others].slice(0, SESSIONS_LIMIT));
  }

  /** The session is named by its first message, as the server keeps it. */
  name(id, text) {
    const title = text.trim().replace(/\s+/g, " ").slice(0, TITLE_LIMIT);
    const sessions = this.list().map((session) =>
      session.id === id && !session.title ? { ...session, title } : session,
    );
    this.#write("sessions", sessions);
  }

  remove(id) {
    this.#write(
      "sessions",
      this.list().filter((session) => session.id !== id),
    );
    write(localStorage, `${this.#prefix}.unanswered.${id}`, null);
  }

  /** Messages of the session that had no end when the page was left: { message_id, text, at_ms }. */
  unanswered(id, nowMs) {
    const kept = readJson(`${this.#prefix}.unanswered.${id}`, []);
    return kept.filter(({ at_ms }) => nowMs - at_ms < UNANSWERED_FOR_MS);
  }

  keepUnanswered(id, messages, nowMs) {
    const before = this.unanswered(id, nowMs);
    const kept = messages.map(({ message_id, text }) => {
      const known = before.find((message) => message.message_id === message_id);
      return { message_id, text, at_ms: known?.at_ms ?? nowMs };
    });
    this.#write(`unanswered.${id}`, kept.length ? kept : null);
  }

  #write(name, value) {
    write(localStorage, `${this.#prefix}.${name}`, value && JSON.stringify(value));
  }
}

function readJson(key, fallback) {
  try {
    return JSON.parse(read(localStorage, key)) ?? fallback;
  } catch {
    return fallback;
  }
}

function read(storage, key) {
  return storage.getItem(key);
}

function write(storage, key, value) {
  try {
    if (value === null) storage.removeItem(key);
    else storage.setItem(key, value);
  } catch {
    // Full or forbidden: the page works on and forgets with the tab.
  }
}

function subject(token) {
  try {
    const payload = token.split(".")[1].replaceAll("-", "+").replaceAll("_", "/");
    return JSON.parse(atob(payload)).sub ?? null;
  } catch {
    return null;
  }
}
