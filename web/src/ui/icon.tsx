// Icons: strokes of the colour of the text, hidden from screen readers.
const paths = {
  plus: "M8 3v10M3 8h10",
  menu: "M2.5 4h11M2.5 8h11M2.5 12h11",
  search: "M7 11.5a4.5 4.5 0 1 0 0-9 4.5 4.5 0 0 0 0 9zM10.5 10.5 14 14",
  more: "M3.5 8h.01M8 8h.01M12.5 8h.01",
  chevron: "M6 3.5 10.5 8 6 12.5",
  send: "M8 13.5v-11M3.5 7 8 2.5 12.5 7",
  stop: "M4 4h8v8H4z",
  gear: "M2.5 4.5h6M12 4.5h1.5M2.5 11.5H4M7.5 11.5h6M10.2 2.8a1.7 1.7 0 1 1 0 3.4 1.7 1.7 0 0 1 0-3.4zM5.8 9.8a1.7 1.7 0 1 1 0 3.4 1.7 1.7 0 0 1 0-3.4z",
  close: "M4 4l8 8M12 4l-8 8",
  down: "M8 2.5v11M3.5 9 8 13.5 12.5 9",
  edit: "M3 13l.7-3L11 2.7l2.3 2.3L6 12.3z",
  bin: "M3 4.5h10M6 4.5V3h4v1.5M4.5 4.5l.5 8.5h6l.5-8.5",
} as const;

export type IconName = keyof typeof paths;

export function Icon({ name, class: extra }: { name: IconName; class?: string }) {
  return (
    <svg class={extra ? "icon " + extra : "icon"} viewBox="0 0 16 16" fill="none" stroke="currentColor" stroke-width={name === "more" ? 2.5 : 1.5} stroke-linecap="round" stroke-linejoin="round" aria-hidden="true">
      <path d={paths[name]} />
    </svg>
  );
}
