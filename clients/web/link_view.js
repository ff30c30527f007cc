// Shows whether the page is connected, and what a person can do when it is not.

const STOPPED = {
  4000: ["Opened elsewhere", "Use here"],
  4400: ["Disconnected", "Reconnect"],
  4401: ["Signed out", "Sign in"],
  4429: ["Open in too many places", "Try again"],
};

export class LinkView {
  /** `reconnect()`, `signIn()`, `announce(text)`. */
  constructor({ reconnect, signIn, announce }) {
    this.#announce = announce;
    byId("link-action").addEventListener("click", () =>
      this.#shown.code === 4401 ? signIn() : reconnect(),
    );
  }

  #announce;
  #shown = { state: "connecting" };
  #countdown = null;

  show(link) {
    if (link === this.#shown) return;
    const was = this.#shown.state;
    this.#shown = link;
    clearInterval(this.#countdown);
    byId("link").dataset.state = link.state;
    this.#write();
    if (link.state === "retrying") this.#countdown = setInterval(() => this.#write(), 500);
    if (link.state === was) return;
    if (link.state === "retrying" && was === "online") this.#announce("Connection lost.");
    if (link.state === "stopped") this.#announce(`${this.#words()[0]}.`);
  }

  #write() {
    const [text, action] = this.#words();
    byId("link-text").textContent = text;
    byId("link-action").textContent = action ?? "";
    byId("link-action").hidden = !action;
  }

  #words() {
    const { state, code, at_ms } = this.#shown;
    if (state === "online") return ["Connected"];
    if (state === "connecting") return ["Connecting"];
    if (state === "idle") return ["Resting"];
    if (state === "stopped") return STOPPED[code] ?? ["Disconnected", "Reconnect"];
    const seconds = Math.ceil((at_ms - Date.now()) / 1000);
    return seconds > 1 ? [`Reconnecting in ${seconds} s`, "Now"] : ["Reconnecting"];
  }
}

function byId(id) {
  return document.getElementById(id);
}
