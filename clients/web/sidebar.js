// The list of sessions, and the drawer that it becomes on a narrow screen.

export class Sidebar {
  /** `actions`: open(id), create(), remove(id). */
  constructor(actions) {
    this.#actions = actions;
    byId("new-session").addEventListener("click", () => {
      this.close();
      actions.create();
    });
    byId("open-sidebar").addEventListener("click", () => this.#open());
    byId("close-sidebar").addEventListener("click", () => this.close());
    byId("scrim").addEventListener("click", () => this.close());
  }

  #actions;

  get isOpen() {
    return "open" in byId("sidebar").dataset;
  }

  /** `busy`: ids of sessions whose answer is still arriving. */
  show(sessions, currentId, busy) {
    byId("sessions-title").hidden = !sessions.length;
    byId("sessions").replaceChildren(
      ...sessions.map((session) => this.#item(session, currentId, busy)),
    );
  }

  close() {
    if (!this.isOpen) return;
    delete byId("sidebar").dataset.open;
    byId("scrim").hidden = true;
    document.querySelector(".chat").inert = false;
    byId("open-sidebar").ariaExpanded = "false";
    byId("open-sidebar").focus();
  }

  #open() {
    byId("sidebar").dataset.open = "";
    byId("scrim").hidden = false;
    document.querySelector(".chat").inert = true;
    byId("open-sidebar").ariaExpanded = "true";
    byId("close-sidebar").focus();
  }

  #item({ id, title: given }, currentId, busy) {
    const title = given ?? "New conversation";
    const item = document.createElement("li");
    item.className = "session";
    if (busy.has(id)) item.dataset.busy = "";
    const open = document.createElement("button");
    open.type = "button";
    open.className = "session-open";
    open.textContent = title;
    open.title = title;
    if (id === currentId) {
      item.dataset.current = "";
      open.setAttribute("aria-current", "page");
    }
    open.addEventListener("click", () => {
      this.close();
      this.#actions.open(id);
    });
    const remove = document.createElement("button");
    remove.type = "button";
    remove.className = "icon-button session-remove";
    remove.ariaLabel = `Remove “${title}”`;
    remove.append(icon("i-trash"));
    remove.addEventListener("click", () => this.#remove(id));
    item.append(open, remove);
    return item;
  }

  #remove(id) {
    const dialog = byId("confirm");
    dialog.returnValue = "";
    dialog.addEventListener(
      "close",
      () => dialog.returnValue === "remove" && this.#actions.remove(id),
      { once: true },
    );
    dialog.showModal();
  }
}

function icon(name) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const use = document.createElementNS("http://www.w3.org/2000/svg", "use");
  use.setAttribute("href", `#${name}`);
  svg.append(use);
  return svg;
}

function byId(id) {
  return document.getElementById(id);
}
