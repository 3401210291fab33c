// Keys that work everywhere.
import { useEffect } from "preact/hooks";
import { look } from "../i18n";
import { chatHref, go, route } from "../state/route";
import { chatOf, drawer, newChat, sessions, stop, thread } from "../state/store";

export function useKeys() {
  useEffect(() => {
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, []);
}

function pressed(e: KeyboardEvent) {
  if (e.isComposing || e.defaultPrevented) return;
  if (e.key === "Escape") drawer.value = false;
  if ((e.ctrlKey || e.metaKey) && e.key === ".") {
    const r = route.peek();
    const chat = r.page === "chat" && r.key ? chatOf(r.key) : undefined;
    if (chat !== undefined && thread(r.page === "chat" ? r.key! : "").peek().running) stop(chat);
    e.preventDefault();
    return;
  }
  const to = e.target as HTMLElement | null;
  const typing = to?.closest("input, textarea, select, [contenteditable], dialog, .approval");
  if (typing || e.ctrlKey || e.metaKey || e.altKey || !look.peek().letters) return;
  switch (e.key) {
    case "/":
      document.getElementById("composer")?.focus();
      break;
    case "n":
      newChat();
      break;
    case "[":
      step(-1);
      break;
    case "]":
      step(1);
      break;
    default:
      return;
  }
  e.preventDefault();
}

function step(by: number) {
  const all = sessions.peek() ?? [];
  const r = route.peek();
  const n = all.findIndex((s) => r.page === "chat" && s.key === r.key);
  const next = all[n + by];
  if (next) go(chatHref(next.key));
}
