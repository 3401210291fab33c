// Numbers for charts.
import type { Day, Used } from "../wire/reads";

/** causes are what calls are for, in the order of the chart. */
export const causes = ["chat", "jobs", "other"] as const;
export type Cause = (typeof causes)[number];

/** causeOf says what a source of calls is for. */
export function causeOf(source: string): Cause {
  if (["user", "api", "subagent", "compaction", "speech"].includes(source)) return "chat";
  if (["cron", "heartbeat", "trigger"].includes(source)) return "jobs";
  return "other";
}

/** Bucket is the sum of some days, of which to is the last. */
export type Bucket = {
  from: string;
  to: string;
  values: Record<Cause, number>;
  total: number;
  requests: number;
  tokens: number;
  usd: number;
};

const dayMS = 24 * 3600 * 1000;
export const addDays = (date: string, n: number) =>
  new Date(Date.parse(date + "T00:00:00Z") + n * dayMS).toISOString().slice(0, 10);

/** buckets sums days up, so many each, from the first day on; days without calls
 *  are 0. The last bucket ends with the last day. */
export function buckets(
  days: readonly Day[],
  since: string,
  span: number,
  size: number,
  of: (u: Used) => number,
): Bucket[] {
  const out: Bucket[] = [];
  const first = span % size === 0 ? size : span % size;
  for (let at = 0, n = first; at < span; at += n, n = size) {
    out.push({
      from: addDays(since, at),
      to: addDays(since, at + n - 1),
      values: { chat: 0, jobs: 0, other: 0 },
      total: 0,
      requests: 0,
      tokens: 0,
      usd: 0,
    });
  }

  for (const d of days) {
    const b = out.find((x) => d.date >= x.from && d.date <= x.to);
    if (!b) continue;
    for (const [source, used] of Object.entries(d.sources)) b.values[causeOf(source)] += of(used);
    b.total += of(d);
    b.requests += d.requests;
    b.tokens += d.total_tokens;
    b.usd += d.cost_usd;
  }

  return out;
}

/** scale is where the axis of a chart ends, and its lines: 1, 2 or 5 times a power
 *  of ten apart. */
export function scale(most: number, lines = 4): { top: number; ticks: number[] } {
  if (!(most > 0) || !Number.isFinite(most)) return { top: 1, ticks: [0, 1] };
  const raw = most / lines;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((n) => n * power).find((s) => s >= raw * (1 - 1e-9))!;
  const n = Math.max(1, Math.ceil(most / step - 1e-9));
  return { top: n * step, ticks: Array.from({ length: n + 1 }, (_, i) => i * step) };
}

/** covered is how much time intervals cover together. */
export function covered(spans: readonly { from: number; to: number }[]): number {
  let sum = 0;
  let end = -Infinity;
  for (const s of [...spans].sort((a, b) => a.from - b.from)) {
    sum += Math.max(0, s.to - Math.max(s.from, end));
    end = Math.max(end, s.to);
  }
  return sum;
}
