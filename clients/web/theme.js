// Loaded before the style sheet shows anything, so that a chosen theme never flashes in late.
{
  const theme = globalThis.localStorage?.getItem("burstchat.theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
}
