// Charts: SVG without styles of its own, with positions in per cent, so that no
// layout is measured. Each has a table beside it; screen readers get that.
import { scale } from "../text/series";

/** Bar: name is what the pointer shows, label stands below the axis, parts are one for each series, from below. */
export type Bar = { name: string; label?: string; parts: number[] };

const height = 180;
const fills = ["fill-1", "fill-2", "fill-3"];

export function Bars({
  label,
  bars,
  series,
  format,
  limit,
}: {
  label: string;
  bars: Bar[];
  series: string[];
  format(n: number): string;
  limit?: { value: number; label: string };
}) {
  const most = Math.max(0, ...bars.map((b) => b.parts.reduce((x, y) => x + y, 0)));
  const shown = limit && limit.value > 0 && limit.value <= 4 * most ? limit : undefined;
  const { top, ticks } = scale(Math.max(most, shown?.value ?? 0));
  const y = (v: number) => height - (v / top) * height;
  const step = 100 / Math.max(1, bars.length);

  return (
    <figure class="chart">
      <div class="plot">
        <svg class="axis" height={height + 24} aria-hidden="true">
          {ticks.map((v) => (
            <text key={v} x="100%" y={y(v) + 12} text-anchor="end">
              {format(v)}
            </text>
          ))}
        </svg>
        <svg height={height + 24} role="img" aria-label={label}>
          <defs>
            <pattern id="stripes" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
              <rect width="2.5" height="5" class="fill-1" />
            </pattern>
          </defs>
          {ticks.map((v) => (
            <line key={v} class="rule" x1="0" x2="100%" y1={y(v) + 8} y2={y(v) + 8} />
          ))}
          {bars.map((b, n) => (
            <Column key={b.name} bar={b} x={n * step} width={step} y={y} />
          ))}
          {shown && (
            <>
              <line class="limit" x1="0" x2="100%" y1={y(shown.value) + 8} y2={y(shown.value) + 8} />
              <text class="limit-text" x="100%" y={y(shown.value) + 4} text-anchor="end">
                {shown.label}
              </text>
            </>
          )}
        </svg>
      </div>
      <figcaption class="legend">
        {series.map((s, n) => (
          <span key={s}>
            <svg width="12" height="12" aria-hidden="true">
              <rect class={fills[n]} x="0.5" y="0.5" width="11" height="11" />
            </svg>
            {s}
          </span>
        ))}
      </figcaption>
    </figure>
  );
}

function Column({ bar, x, width, y }: { bar: Bar; x: number; width: number; y(v: number): number }) {
  let below = 0;
  return (
    <g>
      <title>{bar.name}</title>
      <rect class="hit" x={`${x}%`} width={`${width}%`} y="8" height={height} />
      {bar.parts.map((v, n) => {
        const from = below;
        below += v;
        if (v <= 0) return null;
        const size = Math.max(1, y(from) - y(below));

        return (
          <rect
            class={fills[n]}
            x={`${x + width * 0.15}%`}
            width={`${width * 0.7}%`}
            y={y(from) - size + 8}
            height={size}
          />
        );
      })}
      {bar.label && (
        <text x={`${x + width / 2}%`} y={height + 23} text-anchor="middle">
          {bar.label}
        </text>
      )}
    </g>
  );
}

/** Span: times are shares of the whole; filled is where the solid part begins. */
export type Span = { from: number; to: number; name: string; bad?: boolean; filled?: number };

/** Lanes is a timeline: one row for each kind of thing. */
export function Lanes({
  label,
  lanes,
  ticks,
}: {
  label: string;
  lanes: { title: string; spans: Span[] }[];
  ticks: { at: number; label: string }[];
}) {
  const row = 28;
  const bottom = lanes.length * row;
  return (
    <div class="lanes">
      <div class="lane-names" aria-hidden="true">
        {lanes.map((l) => (
          <span key={l.title}>{l.title}</span>
        ))}
      </div>
      <svg height={bottom + 20} role="img" aria-label={label}>
        {ticks.map((x, n) => (
          <g key={x.at}>
            <line class="rule" x1={`${x.at * 100}%`} x2={`${x.at * 100}%`} y1="0" y2={bottom} />
            <text
              x={`${x.at * 100}%`}
              y={bottom + 15}
              text-anchor={n === 0 ? "start" : n === ticks.length - 1 ? "end" : "middle"}
            >
              {x.label}
            </text>
          </g>
        ))}
        {lanes.map((l, n) =>
          l.spans.map((s, i) => (
            <g key={`${l.title}${i}`}>
              <title>{s.name}</title>
              <rect
                class={s.bad ? "fill-bad" : s.filled === undefined ? "fill-1" : "fill-3"}
                x={`${s.from * 100}%`}
                width={`${Math.max(0.3, (s.to - s.from) * 100)}%`}
                y={n * row + 6}
                height={row - 12}
              />
              {!s.bad && s.filled !== undefined && (
                <rect
                  class="fill-1"
                  x={`${s.filled * 100}%`}
                  width={`${Math.max(0.1, (s.to - s.filled) * 100)}%`}
                  y={n * row + 6}
                  height={row - 12}
                />
              )}
            </g>
          )),
        )}
      </svg>
    </div>
  );
}
