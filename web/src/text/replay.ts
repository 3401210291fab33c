// A turn step by step, and what its time went into.
import { covered } from "./series";

export interface Step {
  at: string;
  duration_ms: number;
  model?: { model: string; provider: string; source: string; first_token_ms?: number; prompt_tokens: number; completion_tokens: number; cached_tokens?: number; billing: string; cost_usd: number; outcome: string };
  tool?: { call_id: string; name: string; arguments: string; is_error?: boolean; untrusted?: boolean; bytes: number; edits?: { path: string; added?: number; deleted?: number }[] };
  wait?: { question: string; answer: string };
  said?: { index: number; role: string; text: string };
}

export type Turn = { turn_id: string; began_at: string; duration_ms?: number; model?: string; stop_reason?: string; error?: string; steps: Step[]; cut?: boolean };
/** Placed is a step by the milliseconds behind the begin of the turn. */
export type Placed = Step & { from: number; to: number };
/** Times: unknown are calls without a price. */
export type Times = { steps: Placed[]; total: number; model: number; tools: number; people: number; other: number; calls: number; tokens: number; usd: number; unknown: number };

/** timesOf places the steps of a turn. Things that went on side by side count
 *  once; what nothing covers is our own time. */
export function timesOf(t: Turn): Times {
  const begin = Date.parse(t.began_at);
  const steps = t.steps.map((s) => {
    const from = Math.max(0, Date.parse(s.at) - begin || 0);
    return { ...s, from, to: from + Math.max(0, s.duration_ms) };
  });
  const total = Math.max(t.duration_ms ?? 0, ...steps.map((s) => s.to), 1);
  const calls = steps.filter((s) => s.model);
  const busy = steps.filter((s) => s.model || s.tool || s.wait);
  return {
    steps,
    total,
    model: covered(calls),
    tools: covered(steps.filter((s) => s.tool)),
    people: covered(steps.filter((s) => s.wait)),
    other: Math.max(0, total - covered(busy)),
    calls: calls.length,
    tokens: calls.reduce((n, s) => n + s.model!.prompt_tokens + s.model!.completion_tokens, 0),
    usd: calls.reduce((n, s) => n + s.model!.cost_usd, 0),
    unknown: calls.filter((s) => s.model!.billing === "unknown").length,
  };
}
