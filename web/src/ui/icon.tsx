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
  inbox: "M2.5 9.5 4.5 3h7l2 6.5V13h-11zM2.5 9.5H6L7 11h2l1-1.5h3.5",
  close: "M4 4l8 8M12 4l-8 8",
  down: "M8 2.5v11M3.5 9 8 13.5 12.5 9",
  edit: "M3 13l.7-3L11 2.7l2.3 2.3L6 12.3z",
  bin: "M3 4.5h10M6 4.5V3h4v1.5M4.5 4.5l.5 8.5h6l.5-8.5",
  clip: "M12.5 7.5 8 12a3 3 0 0 1-4.2-4.2l5-5a2 2 0 0 1 2.8 2.8l-5 5a1 1 0 0 1-1.4-1.4l4.3-4.3",
  mic: "M8 2.2a2 2 0 0 1 2 2v3.6a2 2 0 1 1-4 0V4.2a2 2 0 0 1 2-2zM3.8 7.8a4.2 4.2 0 0 0 8.4 0M8 12v2",
  pin: "M8 9.5V14M5 2.5h6M6 2.5v4L4 9.5h8l-2-3v-4",
  archive: "M2.5 3h11v3h-11zM3.5 6v7h9V6M6.5 8.5h3",
  clock: "M8 2.5a5.5 5.5 0 1 1 0 11 5.5 5.5 0 0 1 0-11zM8 5v3.2L10.2 10",
  copy: "M5.5 5.5h7v8h-7zM3.5 10.5v-8h7",
  fork: "M5 2.5v11M5 9c0-3 6-1.5 6-5M11 2.5v1",
} as const;

export type IconName = keyof typeof paths;

export function Icon({ name, class: extra }: { name: IconName; class?: string }) {
  return (
    <svg
      class={extra ? "icon " + extra : "icon"}
      viewBox="0 0 16 16"
      fill="none"
      stroke="currentColor"
      stroke-width={name === "more" ? 2.5 : 1.5}
      stroke-linecap="round"
      stroke-linejoin="round"
      aria-hidden="true"
    >
      <path d={paths[name]} />
    </svg>
  );
}
