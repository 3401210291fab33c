// Changes of jobs and triggers, and how they are shown.
import { changed } from "../../state/read";
import { request } from "../../state/store";
import type { Tone } from "../../ui/list";
import type { Automation, Made } from "../../wire/reads";

/** act changes an automation and lets the lists be read again. */
export async function act<T = Made>(action: string, payload: unknown): Promise<T> {
  const out = await request<T>("automation." + action, payload);
  changed("automations");
  return out;
}

export const hrefOf = (a: Automation) => `#/automations/${encodeURIComponent(a.id)}`;

/** toneOf tells how the last run went. */
export const toneOf = (status: string): Tone =>
  status === "ok" ? "good" : status === "error" || status === "failed" ? "bad" : "off";
