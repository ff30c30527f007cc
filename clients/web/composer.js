// The message field: Enter sends, Shift+Enter adds a line, the field grows with its text.

const MESSAGE_LIMIT_BYTES = 16 * 1024;

export class Composer {
  /** `onSend(text)`, `onStop()`, `onResize()` after the field changed its height. */
  constructor({ onSend, onStop, onResize }) {
    this.#onSend = onSend;
    this.#onResize = onResize;
    this.#text.addEventListener("input", () => this.#changed());
    this.#text.addEventListener("keydown", (event) => {
      // While an input method composes, Enter chooses a word; on touch it adds a line.
      const sends = event.key === "Enter" && !event.shiftKey && !event.isComposing;
      if (!sends || matchMedia("(pointer: coarse)").matches) return;
      event.preventDefault();
      this.#submit();
    });
    byId("composer").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#submit();
    });
    byId("composer").addEventListener("click", (event) => {
      if (event.target === event.currentTarget) this.focus();
    });
    byId("stop").addEventListener("click", () => {
      onStop();
      this.focus();
    });
    this.#changed();
  }

  #onSend;
  #onResize;
  #text = byId("composer-text");
  #note = byId("composer-note");

  focus() {
    this.#text.focus({ preventScroll: true });
  }

  showStop(isRunning) {
    byId("stop").hidden = !isRunning;
  }

  #submit() {
    const text = this.#text.value.trim();
    if (!text || tooLongBy(text) > 0) return;
    this.#text.value = "";
    this.#changed();
    this.#onSend(text);
  }

  #changed() {
    const over = tooLongBy(this.#text.value.trim());
    byId("send").disabled = !this.#text.value.trim() || over > 0;
    if (over > 0) this.#note.dataset.error = "";
    else delete this.#note.dataset.error;
    this.#note.textContent =
      over > 0 ? `Too long by ${over.toLocaleString()} bytes.` : this.#note.dataset.keys;
    this.#text.style.height = "auto";
    this.#text.style.height = `${this.#text.scrollHeight}px`;
    this.#onResize();
  }
}

function tooLongBy(text) {
  return new TextEncoder().encode(text).length - MESSAGE_LIMIT_BYTES;
}

function byId(id) {
  return document.getElementById(id);
}
