// The difference between two texts, line by line.

export type DiffLine = { kind: "same" | "add" | "del"; text: string };

const most = 1500; // lines that are compared exactly; more are shown as replaced

/** lineDiff is how the second text came from the first. Equal beginnings and ends
 *  are found first, the rest by the longest common sequence. */
export function lineDiff(a: string, b: string): DiffLine[] {
  const x = lines(a);
  const y = lines(b);
  let start = 0;
  while (start < x.length && start < y.length && x[start] === y[start]) start++;
  let end = 0;
  while (end < x.length - start && end < y.length - start && x[x.length - 1 - end] === y[y.length - 1 - end]) end++;
  const out: DiffLine[] = x.slice(0, start).map((text) => ({ kind: "same", text }));
  out.push(...middle(x.slice(start, x.length - end), y.slice(start, y.length - end)));
  out.push(...x.slice(x.length - end).map((text) => ({ kind: "same" as const, text })));
  return out;
}

function lines(s: string): string[] {
  const out = s.split("\n");
  if (out[out.length - 1] === "") out.pop();
  return out;
}

function middle(x: string[], y: string[]): DiffLine[] {
  const del = x.map((text) => ({ kind: "del" as const, text }));
  const add = y.map((text) => ({ kind: "add" as const, text }));
  if (!x.length || !y.length || x.length > most || y.length > most) return [...del, ...add];
  const wide = y.length + 1;
  const best = new Uint16Array((x.length + 1) * wide); // length of the common sequence of the rests
  for (let i = x.length - 1; i >= 0; i--) {
    for (let j = y.length - 1; j >= 0; j--) {
      best[i * wide + j] =
        x[i] === y[j]
          ? best[(i + 1) * wide + j + 1]! + 1
          : Math.max(best[(i + 1) * wide + j]!, best[i * wide + j + 1]!);
    }
  }

  const out: DiffLine[] = [];
  let i = 0;
  let j = 0;
  while (i < x.length || j < y.length) {
    if (i < x.length && j < y.length && x[i] === y[j]) {
      out.push({ kind: "same", text: x[i]! });
      i++;
      j++;
    } else if (j >= y.length || (i < x.length && best[(i + 1) * wide + j]! >= best[i * wide + j + 1]!))
      out.push(del[i++]!);
    else out.push(add[j++]!);
  }

  return out;
}

/** around leaves out equal lines far from a change; undefined stands for them. */
export function around(diff: readonly DiffLine[], context = 3): (DiffLine | undefined)[] {
  const keep = new Uint8Array(diff.length);
  diff.forEach((l, n) => {
    if (l.kind !== "same") keep.fill(1, Math.max(0, n - context), n + context + 1);
  });
  const out: (DiffLine | undefined)[] = [];
  diff.forEach((l, n) => {
    if (keep[n]) out.push(l);
    else if (out.length === 0 || out[out.length - 1] !== undefined) out.push(undefined);
  });
  return out;
}
