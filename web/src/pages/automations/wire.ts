// Jobs and triggers as the gateway describes them.
import { changed } from "../../state/read";
import { request } from "../../state/store";
import type { Tone } from "../../ui/list";

export interface Timing {
  every_seconds?: number;
  cron?: string;
  at?: string;
  tz?: string;
}

export interface Run {
  at: string;
  status: string;
  duration_ms?: number;
  error?: string;
  note?: string;
  silent?: boolean;
  tokens?: number;
  cost_usd?: number;
}

export interface Automation {
  kind: "job" | "trigger";
  id: string;
  name: string;
  message: string;
  schedule?: Timing;
  when?: string;
  enabled: boolean;
  protected: boolean;
  running: boolean;
  channel: string;
  chat_id: string;
  session_key: string;
  deliver: boolean;
  catch_up?: string;
  timeout_seconds?: number;
  next_run?: string;
  last_run?: string;
  last_status?: string;
  last_error?: string;
  undelivered?: string;
  broken?: string;
  command?: string;
  upcoming?: string[];
}

export interface Foreseen {
  when: string;
  next_runs: string[];
  cost: string;
}

export type Made = Partial<Foreseen> & { automation: Automation; secret?: string };

/** act changes an automation and lets the lists be read again. */
export async function act<T = Made>(action: string, payload: unknown): Promise<T> {
  const out = await request<T>("automation." + action, payload);
  changed("automations");
  return out;
}

export const hrefOf = (a: Automation) => `#/automations/${encodeURIComponent(a.id)}`;

/** toneOf tells how the last run went. */
export const toneOf = (status: string): Tone => (status === "ok" ? "good" : status === "error" || status === "failed" ? "bad" : "off");
