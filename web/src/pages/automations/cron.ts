// Schedules of the simple kind: at a time, on some days of the week.

/** weekly reads cron expressions of the simple kind: at a time, on some days of the week. */
export function weekly(cron: string): { time: string; days: number[] } | undefined {
  const m = /^(\d{1,2}) (\d{1,2}) \* \* (\*|[0-6](?:,[0-6])*)$/.exec(cron);
  if (!m || Number(m[1]) > 59 || Number(m[2]) > 23) return undefined;
  return {
    time: `${m[2]!.padStart(2, "0")}:${m[1]!.padStart(2, "0")}`,
    days: m[3] === "*" ? [] : m[3]!.split(",").map(Number),
  };
}

export function cronOf(time: string, days: number[]): string {
  const [hour = "9", minute = "0"] = time.split(":");
  const every = days.length === 0 || days.length === 7;
  return `${Number(minute)} ${Number(hour)} * * ${every ? "*" : [...days].sort().join(",")}`;
}

/** localTime is a moment as a field of the page takes it, such as 2026-05-04T09:00. */
export function localTime(at: Date): string {
  const two = (n: number) => String(n).padStart(2, "0");
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}T${two(at.getHours())}:${two(at.getMinutes())}`;
}
