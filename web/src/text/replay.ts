// A turn step by step, and what its time went into.
import type { ReplayStep, Replayed } from "../wire/reads";
import { covered } from "./series";

/** Placed is a step by the milliseconds behind the begin of the turn. */
export type Placed = ReplayStep & { from: number; to: number };
/** Times: unknown are calls without a price. */
export type Times = {
  steps: Placed[];
  total: number;
  model: number;
  tools: number;
  people: number;
  other: number;
  calls: number;
  tokens: number;
  usd: number;
  unknown: number;
};

/** timesOf places the steps of a turn. Things that went on side by side count
 *  once; what nothing covers is our own time. */
export function timesOf(t: Replayed): Times {
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
