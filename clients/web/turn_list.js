// The list of turns: one view each, the newest words kept in sight, and what a screen reader hears.

import { hasEnded } from "./client.js";
import { TurnView } from "./turn_view.js";

const NEAR_END_PX = 96;
const SPOKEN_LIMIT = 2000;

export class TurnList {
  /** `retry(turn)`, `cancel(turn)`, `announce(text)`. */
  constructor({ retry, cancel, announce }) {
    this.#actions = {
      cancel,
      retry: (turn) => {
        this.follow();
        if (turn.status !== "rejected") this.#retried.add(turn.key);
        retry(turn);
      },
    };
    this.#announce = announce;
    this.#scroller.addEventListener("scroll", () => this.#scrolled(), { passive: true });
  }

  #actions;
  #announce;
  #views = new Map(); // turn key → TurnView
  #retried = new Set(); // keys of turns that were asked again
  #statuses = new Map(); // turn key → the status that was announced
  #follows = true; // the newest words stay in sight
  #list = byId("turns");
  #scroller = byId("scroller");

  /** Another session comes. */
  clear() {
    for (const view of this.#views.values()) view.remove();
    this.#views.clear();
    this.#retried.clear();
    this.#statuses.clear();
    this.#follows = true;
    this.#scroller.scrollTop = 0;
  }

  /** Keep the newest words in sight from now on. */
  follow() {
    this.#follows = true;
  }

  show({ turns, connected }) {
    const heightBefore = this.#scroller.scrollHeight;
    const firstBefore = this.#list.firstChild;
    this.#removeAllBut(new Set(turns.map((turn) => turn.key)));
    let ahead = 0;
    turns.forEach((turn, index) => {
      const view = this.#viewOf(turn, index);
      view.update(turn, { ahead, connected, retried: this.#retried.has(turn.key) });
      if (!hasEnded(turn)) ahead += 1;
      this.#speak(turn, view);
    });
    const hasGrownAbove = firstBefore && this.#list.firstChild !== firstBefore;
    if (hasGrownAbove && !this.#follows) {
      this.#scroller.scrollTop += this.#scroller.scrollHeight - heightBefore;
    }
    this.keepEnd();
    this.#scrolled();
  }

  /** After anything changed its height. Without turns there is only the welcome, read from its top. */
  keepEnd() {
    if (this.#follows && this.#views.size > 0) this.#scroller.scrollTop = this.#scroller.scrollHeight;
  }

  toEnd() {
    this.#scroller.scrollTo({ top: this.#scroller.scrollHeight, behavior: "smooth" });
  }

  #viewOf(turn, index) {
    let view = this.#views.get(turn.key);
    if (!view) {
      view = new TurnView(this.#actions);
      this.#views.set(turn.key, view);
    }
    const there = this.#list.children[index] ?? null;
    if (there !== view.element) this.#list.insertBefore(view.element, there);
    return view;
  }

  #removeAllBut(kept) {
    for (const [key, view] of this.#views) {
      if (kept.has(key)) continue;
      view.remove();
      this.#views.delete(key);
    }
  }

  /** Says when an answer begins and when it is whole, not every word. */
  #speak(turn, view) {
    const before = this.#statuses.get(turn.key);
    if (before === turn.status) return;
    this.#statuses.set(turn.key, turn.status);
    if (!before) return; // from history, or just written by the user
    if (turn.status === "streaming") this.#announce("Answering.");
    else if (turn.status === "completed") this.#announce(view.spokenText.slice(0, SPOKEN_LIMIT));
    else if (turn.status === "cancelled") this.#announce("Stopped.");
    else if (hasEnded(turn)) this.#announce(turn.message ?? "No answer came.");
  }

  #scrolled() {
    const { scrollTop, scrollHeight, clientHeight } = this.#scroller;
    const isNearEnd = scrollHeight - scrollTop - clientHeight < NEAR_END_PX;
    this.#follows = this.#views.size === 0 || isNearEnd;
    byId("to-latest").hidden = this.#follows;
  }
}

function byId(id) {
  return document.getElementById(id);
}
