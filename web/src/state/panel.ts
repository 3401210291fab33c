// What is shown beside the conversation: a file, or the changes of a turn.
import { signal } from "@preact/signals";
import { route } from "./route";

export type Panel = { kind: "file"; key: string; path: string } | { kind: "diff"; id: string };

export const panel = signal<Panel | undefined>(undefined);

/** showFile opens a file of the conversation that is shown. */
export function showFile(path: string) {
  const r = route.peek();
  if (r.page === "chat" && "key" in r && r.key) panel.value = { kind: "file", key: r.key, path };
}

export const showDiff = (id: string) => void (panel.value = { kind: "diff", id });

/** undoing is the turn whose changes the person wants to undo, and what to do then. */
export const undoing = signal<{ id: string; done?(by: string): void } | undefined>(undefined);
