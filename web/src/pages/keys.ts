// Keys that work everywhere.
import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { look } from "../i18n";
import { chatHref, go, names, route } from "../state/route";
import { chatOf, drawer, newChat, sessions, stop, thread } from "../state/store";
import { table } from "./table";

/** overlay is what lies over the page: the palette, or the list of keys. */
export const overlay = signal<"palette" | "keys" | undefined>(undefined);

export function useKeys() {
  useEffect(() => {
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, []);
}

let going = 0; // when g was pressed
const patience = 1500; // milliseconds for the letter behind it

function pressed(e: KeyboardEvent) {
  if (e.isComposing || e.defaultPrevented) return;
  if (e.key === "Escape") drawer.value = false;
  if ((e.ctrlKey || e.metaKey) && !e.shiftKey && !e.altKey && e.key.toLowerCase() === "k") {
    overlay.value = "palette";
    e.preventDefault();
    return;
  }

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
  if (letter(e.key)) e.preventDefault();
}

/** letter does what a key of one character stands for; it reports whether there is something. */
function letter(key: string): boolean {
  if (going > 0) {
    const late = performance.now() - going > patience;
    going = 0;
    const page = late ? undefined : names.find((n) => table[n].letter === key);
    if (page) go("#/" + page);
    if (!late) return page !== undefined;
  }

  switch (key) {
    case "g":
      going = performance.now();
      return true;
    case "?":
      overlay.value = "keys";
      return true;
    case "/":
      document.getElementById("composer")?.focus();
      return true;
    case "n":
      newChat();
      return true;
    case "[":
      return step(-1);
    case "]":
      return step(1);
    case "j":
      return move(1);
    case "k":
      return move(-1);
    case "e":
    case "d":
    case "u":
      return press(key);
  }

  return false;
}

function step(by: number): boolean {
  const all = sessions.peek() ?? [];
  const r = route.peek();
  const n = all.findIndex((s) => r.page === "chat" && s.key === r.key);
  const next = all[n + by];
  if (next) go(chatHref(next.key));
  return true;
}

// ---- messages

const items = () => [...document.querySelectorAll<HTMLElement>(".thread .item")];
const focused = () => document.activeElement?.closest<HTMLElement>(".thread .item") ?? undefined;

/** move focuses the next message, or the one at the edge of the view. */
function move(by: number): boolean {
  const all = items();
  const box = document.querySelector(".thread")?.getBoundingClientRect();
  if (!box || all.length === 0) return false;
  const from = focused();
  let next: HTMLElement | undefined;
  if (from) next = all[all.indexOf(from) + by];
  else if (by > 0) next = all.find((x) => x.getBoundingClientRect().bottom > box.top);
  else next = all.findLast((x) => x.getBoundingClientRect().top < box.bottom);

  if (!next) return true;
  next.tabIndex = -1;
  next.focus();
  return true;
}

/** press clicks the button for a key in the focused message, else the one below
 *  its turn. Buttons carry the key as data-key. */
function press(key: string): boolean {
  const from = focused();
  if (!from) return false;
  const all = items();
  for (const item of all.slice(all.indexOf(from))) {
    if (item !== from && item.querySelector("article.user")) return false;
    const found =
      item.querySelector<HTMLElement>(`[data-key="${key}"]`) ?? (key === "e" ? item.querySelector("summary") : null);
    if (found) {
      found.click();
      return true;
    }
    if (key === "e") return false;
  }

  return false;
}
