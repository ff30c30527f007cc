// Shows one turn. `update` is called with every new state of it and touches only what changed.

import { hasEnded } from "./client.js";
import { parse, toDom } from "./markdown.js";

const FAILURE_WORDS = {
  expired: "This waited too long and was let go, so that newer messages are not held up.",
  unknown_turn: "The server no longer knows this message.",
};

export class TurnView {
  /** `actions`: retry(turn), cancel(turn). */
  constructor(actions) {
    this.#actions = actions;
    this.element = make("li", "turn");
    this.#said = make("p", "said");
    this.#reply = make("div", "reply");
    this.#answer = make("div", "answer");
    this.#state = make("div", "state");
    this.#notice = make("div", "notice");
    this.#facts = make("div", "facts");
    this.#reply.append(this.#answer, this.#state, this.#notice, this.#facts);
    this.#masked = make("p", "masked", "Personal data was hidden; the assistant does not need it.");
    this.element.append(this.#said, this.#masked, this.#reply);
  }

  #actions;
  #said;
  #masked;
  #reply;
  #answer;
  #state;
  #notice;
  #facts;
  #blocks = [];
  #shown = null;
  #countdown = null;

  /** `context`: { ahead: unfinished turns before this one, connected, retried }. */
  update(turn, context) {
    const shown = [turn, context.ahead, context.connected, context.retried];
    if (this.#shown?.every((value, index) => value === shown[index])) return;
    this.#shown = shown;
    this.element.dataset.status = turn.status;
    this.#said.textContent = turn.user_text;
    this.#said.hidden = !turn.user_text;
    this.#masked.hidden = !turn.is_masked;
    this.#reply.ariaBusy = String(turn.status === "streaming");
    this.#showAnswer(turn.text);
    this.#showState(turn, context);
    this.#showNotice(turn, context);
    this.#showFacts(turn);
  }

  /** What a screen reader should hear of the answer. */
  get spokenText() {
    return this.#answer.innerText;
  }

  remove() {
    clearInterval(this.#countdown);
    this.element.remove();
  }

  #showAnswer(text) {
    const blocks = text ? parse(text) : [];
    let same = 0;
    while (same < blocks.length && blocks[same].source === this.#blocks[same]?.source) same += 1;
    // Blocks that are finished keep their nodes, so that selections and scroll positions stay.
    while (this.#answer.childNodes.length > same) this.#answer.lastChild.remove();
    for (const block of blocks.slice(same)) this.#answer.append(toDom(block, document));
    this.#blocks = blocks;
  }

  #showState(turn, context) {
    const words = stateWords(turn, context);
    const isWorking = !hasEnded(turn) && !turn.text;
    this.#state.hidden = !isWorking;
    if (!isWorking) return this.#state.replaceChildren();
    const parts = [];
    if (turn.status === "waiting" || turn.status === "sent") parts.push(make("span", "", words));
    else parts.push(dots(), make("span", words === "Answering" ? "visually-hidden" : "", words));
    if (turn.status === "waiting" && !turn.cancel_requested) {
      parts.push(button("text-button", "Withdraw", () => this.#actions.cancel(turn)));
    }
    this.#state.replaceChildren(...parts);
  }

  #showNotice(turn, { retried }) {
    clearInterval(this.#countdown);
    const words = noticeWords(turn);
    this.#notice.hidden = !words;
    if (!words) return this.#notice.replaceChildren();
    const calm = turn.status === "expired" || turn.status === "rejected";
    this.#notice.dataset.tone = calm ? "calm" : "bad";
    this.#notice.replaceChildren(make("p", "", words));
    if (turn.retryable && !retried) this.#notice.append(this.#retryButton(turn));
  }

  #retryButton(turn) {
    const retry = button("quiet-button", "Try again", () => this.#actions.retry(turn));
    const openAtMs = Date.now() + (turn.retry_after_ms ?? 0);
    const count = () => {
      const seconds = Math.ceil((openAtMs - Date.now()) / 1000);
      retry.disabled = seconds > 0;
      retry.textContent = seconds > 0 ? `Try again in ${seconds} s` : "Try again";
      if (seconds <= 0) clearInterval(this.#countdown);
    };
    this.#countdown = setInterval(count, 250);
    count();
    return retry;
  }

  #showFacts(turn) {
    const facts = factWords(turn);
    const ends = ["completed", "cancelled"].includes(turn.status);
    this.#facts.hidden = !ends || (!facts.length && !turn.text);
    if (this.#facts.hidden) return this.#facts.replaceChildren();
    const parts = facts.length ? [make("span", "", facts.join(" · "))] : [];
    if (turn.text && navigator.clipboard) parts.unshift(copyButton(turn.text));
    if (turn.sources.length) parts.unshift(sourceList(turn.sources));
    this.#facts.title = detailWords(turn);
    this.#facts.replaceChildren(...parts);
  }
}

function stateWords(turn, { ahead, connected }) {
  switch (turn.status) {
    case "sent":
      return connected ? "Sending" : "Will be sent when the connection is back";
    case "waiting": {
      const before = Math.min(turn.position ?? ahead, ahead || 1);
      return before > 1 ? `Waiting · ${before} messages ahead` : "Waiting · next in line";
    }
    case "queued":
      return `Busy just now · about ${Math.max(1, Math.round(turn.wait_ms / 1000))} s`;
    default:
      return "Answering";
  }
}

function noticeWords(turn) {
  switch (turn.status) {
    case "rejected":
      return `Not sent. ${turn.message}`;
    case "expired":
      return FAILURE_WORDS.expired;
    case "failed": {
      const words = FAILURE_WORDS[turn.code] ?? turn.message;
      return turn.partial ? `${words} What is shown above is incomplete.` : words;
    }
    default:
      return "";
  }
}

function factWords(turn) {
  const facts = [];
  if (turn.status === "cancelled") facts.push("Stopped");
  if (turn.verified === false) facts.push("Could not be checked against the stored answer");
  if (turn.stop_reason === "max_tokens") facts.push("Cut at the length limit");
  if (turn.path) facts.push(turn.path);
  if (turn.timings) facts.push(`first words after ${seconds(turn.timings.first_token_ms)}`);
  return facts;
}

function detailWords({ timings, usage, model, intent, attempt }) {
  const details = [];
  if (timings) details.push(`${seconds(timings.total_ms)} in all`);
  if (usage) details.push(`${usage.output_tokens} tokens`);
  if (model) details.push(model);
  if (intent) details.push(intent);
  if (attempt > 1) details.push(`attempt ${attempt}`);
  return details.join(" · ");
}

function seconds(ms) {
  return `${(ms / 1000).toFixed(ms < 10_000 ? 2 : 0)} s`;
}

function sourceList(sources) {
  const list = make("ul");
  list.append(...sources.map(({ title }) => make("li", "", title)));
  const labelled = make("div", "sources");
  labelled.append(make("span", "", "Sources"), list);
  return labelled;
}

function copyButton(text) {
  const copy = button("text-button", "Copy", async () => {
    await navigator.clipboard.writeText(text);
    copy.textContent = "Copied";
    setTimeout(() => (copy.textContent = "Copy"), 2000);
  });
  return copy;
}

function dots() {
  const element = make("span", "dots");
  element.ariaHidden = "true";
  element.append(make("i"), make("i"), make("i"));
  return element;
}

function button(className, text, onClick) {
  const element = make("button", className, text);
  element.type = "button";
  element.addEventListener("click", onClick);
  return element;
}

function make(name, className = "", text = "") {
  const element = document.createElement(name);
  if (className) element.className = className;
  if (text) element.textContent = text;
  return element;
}
