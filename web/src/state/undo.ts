// Undone turns, in the conversations that are shown.
import { threads } from "./base";

/** markUndone notes in its conversation that a turn was undone, or is in force again. */
export function markUndone(id: string, by: string | undefined) {
  for (const t of threads.values()) {
    const n = t.peek().items.findIndex((i) => i.kind === "end" && i.undo === id);
    if (n < 0) continue;
    const items = t.peek().items.map((i, at) => (at === n && i.kind === "end" ? { ...i, undone: by } : i));
    t.value = { ...t.peek(), items };
  }
}
