// The assistant's own words come from the server, so that the page serves any assistant.

/** Fills in name, tagline, greeting and suggestions; neutral words stay where the server has none. */
export async function showAssistant() {
  const assistant = await fetch("/assistant.json")
    .then((answer) => (answer.ok ? answer.json() : {}))
    .catch(() => ({}));
  for (const element of document.querySelectorAll("[data-assistant]")) {
    const words = assistant[element.dataset.assistant];
    if (words) element.textContent = words;
  }
  if (assistant.name) {
    document.title = assistant.name;
    document.getElementById("composer-text").placeholder = `Message ${assistant.name}`;
  }
  const items = (assistant.suggestions ?? []).map(suggestion);
  document.getElementById("suggestions").replaceChildren(...items);
}

function suggestion(text) {
  const item = document.createElement("li");
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = text;
  item.append(button);
  return item;
}
