// Short messages to the person.
import { signal } from "@preact/signals";
import { Refused } from "../wire/api";
import type { Failure } from "../wire/types";

export const toasts = signal<{ id: number; text: string; bad: boolean }[]>([]);
export const connected = signal(false);

let last = 0;
let describe: (f: Failure) => string = (f) => f.message;
/** onFailure says how an error is put into words. */
export function onFailure(f: (f: Failure) => string) {
  describe = f;
}

export function fail(e: unknown) {
  const f = e instanceof Refused ? e.failure : (e as Failure);
  if (f?.status === 401) return; // the sign-in page says it
  if (f?.status === 0 && !connected.peek()) return; // the status line says it
  toast(describe(typeof f?.status === "number" ? f : { status: 0, message: String(e) }), true);
}

export function toast(text: string, bad = false) {
  const t = { id: ++last, text, bad };
  toasts.value = [...toasts.peek(), t];
  setTimeout(() => (toasts.value = toasts.peek().filter((x) => x.id !== t.id)), 6000);
}
