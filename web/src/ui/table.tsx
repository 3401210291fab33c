// A table that scrolls in its own box.
import type { ComponentChildren } from "preact";

export interface Column<R> {
  title: string;
  cell(row: R): ComponentChildren;
  number?: boolean;
}

export function Table<R>({
  label,
  columns,
  rows,
  id,
  empty,
}: {
  label: string;
  columns: Column<R>[];
  rows: readonly R[];
  id(row: R): string;
  empty?: string;
}) {
  if (rows.length === 0 && empty) return <p class="hint">{empty}</p>;
  return (
    <div class="table-box" role="region" aria-label={label} tabIndex={0}>
      <table class="table">
        <caption class="sr">{label}</caption>
        <thead>
          <tr>
            {columns.map((c) => (
              <th key={c.title} scope="col" class={c.number ? "number" : undefined}>
                {c.title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((r) => (
            <tr key={id(r)}>
              {columns.map((c) => (
                <td key={c.title} class={c.number ? "number" : undefined}>
                  {c.cell(r)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
