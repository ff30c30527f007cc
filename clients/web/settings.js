// The settings dialog: theme, and who one chats as.

import { readIdentity, readTheme, writeIdentity, writeTheme } from "./store.js";

const THEMES = ["system", "light", "dark"];

export function setTheme(theme) {
  writeTheme(theme);
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}

/** The theme that differs from what is shown now; back to `system` where that shows it. */
export function toggleTheme() {
  const prefersDark = matchMedia("(prefers-color-scheme: dark)").matches;
  const theme = readTheme();
  const isDark = theme === "dark" || (theme === "system" && prefersDark);
  const other = isDark ? "light" : "dark";
  setTheme((other === "dark") === prefersDark ? "system" : other);
}

export class Settings {
  /** `onIdentity` runs after somebody signed in or out. */
  constructor(onIdentity) {
    this.#onIdentity = onIdentity;
    this.#dialog = document.getElementById("settings");
    this.#error = document.getElementById("settings-error");
    for (const radio of this.#dialog.querySelectorAll("[name=theme]")) {
      radio.addEventListener("change", () => setTheme(radio.value));
    }
    this.#on("sign-in", "submit", (form) => this.#signIn(form.elements.user.value.trim()));
    this.#on("use-token", "submit", (form) => this.#use(form.elements.token.value.trim()));
    this.#on("sign-out", "click", () => this.#use(null));
    this.#dialog.addEventListener("click", (event) => {
      if (event.target === this.#dialog) this.#dialog.close(); // the backdrop
    });
  }

  #onIdentity;
  #dialog;
  #error;

  open() {
    const { token, user } = readIdentity();
    const theme = readTheme();
    for (const name of THEMES) this.#dialog.querySelector(`[value=${name}]`).checked = name === theme;
    document.getElementById("user").value = user ?? "";
    document.getElementById("token").value = "";
    document.getElementById("sign-out").hidden = !token;
    this.#error.textContent = "";
    this.#dialog.showModal();
  }

  async #signIn(user) {
    const problem = "This server offers no test users. Use an access token instead.";
    try {
      const answer = await fetch("/v1/tokens", {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ user }),
        signal: AbortSignal.timeout(10_000),
      });
      if (!answer.ok) this.#error.textContent = problem;
      else this.#use((await answer.json()).token, user);
    } catch {
      this.#error.textContent = "The server does not answer.";
    }
  }

  #use(token, user = null) {
    writeIdentity(token, user);
    this.#dialog.close();
    this.#onIdentity();
  }

  #on(id, event, act) {
    const element = document.getElementById(id);
    element.addEventListener(event, (happened) => {
      happened.preventDefault();
      act(element);
    });
  }
}
