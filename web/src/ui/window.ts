// Which rows of a long list are mounted. Heights of rows that were on the screen
// are kept, the others are estimated.

export const step = 10; // rows that are mounted at a time

export interface Row {
  id: string;
  estimate: number;
}

export class Heights {
  private readonly known = new Map<string, number>();
  version = 0;

  /** set keeps a height; it reports whether it is new. An unmounted element
   *  reports 0, which says nothing. */
  set(id: string, height: number): boolean {
    if (height <= 0 || Math.abs((this.known.get(id) ?? -1) - height) < 0.5) return false;
    this.known.set(id, height);
    this.version++;
    return true;
  }

  of(row: Row): number {
    return this.known.get(row.id) ?? row.estimate;
  }
}

/** offsets are the tops of all rows, and the bottom of the last. */
export function offsets(rows: readonly Row[], heights: Heights): Float64Array {
  const out = new Float64Array(rows.length + 1);
  for (let n = 0; n < rows.length; n++) out[n + 1] = out[n]! + heights.of(rows[n]!);
  return out;
}

/** rowAt is the row that contains a position. */
export function rowAt(tops: Float64Array, y: number): number {
  let low = 0;
  let high = Math.max(0, tops.length - 2);
  while (low < high) {
    const mid = (low + high + 1) >> 1;
    if (tops[mid]! <= y) low = mid;
    else high = mid - 1;
  }
  return low;
}

/** range is which rows to mount for a view: those it shows and as many around. */
export function range(tops: Float64Array, top: number, height: number): [from: number, to: number] {
  const n = tops.length - 1;
  if (n === 0) return [0, 0];
  const first = rowAt(tops, top - height);
  const last = rowAt(tops, top + 2 * height);
  return [Math.floor(first / step) * step, Math.min(n, Math.ceil((last + 1) / step) * step)];
}
