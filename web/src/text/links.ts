// What may become a link.

/** safeHref is the address of a link, or undefined if the text must stay text. */
export function safeHref(href: string): string | undefined {
  const clean = href.trim();
  if (/[\u0000-\u001f\u007f]/.test(clean)) return undefined;
  if (/^(?:https?:\/\/|mailto:)/i.test(clean)) {
    try {
      return new URL(clean).href;
    } catch {
      return undefined;
    }
  }

  if (ownHref(clean)) return clean;
  return undefined;
}

/** ownHref reports whether an address is one of ours: a route, but not one that
 *  signs in, or a file that the gateway signed. */
export function ownHref(href: string): boolean {
  return /^#\/(?!in\/)/.test(href) || /^\/?api\/media\/[\w./=?&%-]+$/.test(href);
}

/** mediaSrc is the address of a file of ours relative to the document. */
export const mediaSrc = (href: string) => href.replace(/^\//, "");

const named: Record<string, string> = {
  amp: "&",
  lt: "<",
  gt: ">",
  quot: '"',
  apos: "'",
  nbsp: "\u00a0",
  copy: "©",
  reg: "®",
  mdash: "—",
  ndash: "–",
  hellip: "…",
  rarr: "→",
  larr: "←",
  times: "×",
  deg: "°",
  euro: "€",
  bull: "•",
  middot: "·",
  trade: "™",
};

/** decode replaces the entities that Markdown allows in text. */
export function decode(text: string): string {
  if (!text.includes("&")) return text;
  return text.replace(
    /&(?:#(\d{1,7})|#[xX]([0-9a-fA-F]{1,6})|(\w{1,8}));/g,
    (all, dec?: string, hex?: string, name?: string) => {
      if (name) return Object.hasOwn(named, name) ? named[name]! : all;
      const n = dec ? parseInt(dec, 10) : parseInt(hex!, 16);
      return n > 0 && n <= 0x10ffff && !(n >= 0xd800 && n <= 0xdfff) ? String.fromCodePoint(n) : "\ufffd";
    },
  );
}

/** label is a name on one line, without what could reorder the text around it. */
export function label(text: string): string {
  return text.replace(/[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]+/g, " ").trim();
}

/** visible shows characters that could hide or reorder text. */
export function visible(text: string): string {
  return text.replace(
    /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|\udb40[\udc00-\udfff]/g,
    (c) => `\\u{${c.codePointAt(0)!.toString(16)}}`,
  );
}

/** dense says how many spaces or empty lines there are where many would push what follows out of sight. */
export function dense(text: string, say: { spaces: (n: number) => string; empty: (n: number) => string }): string {
  return text
    .replace(/(?:^[ \t]*\n){3,}/gm, (run) => `‹${say.empty(run.split("\n").length - 1)}›\n`)
    .replace(/[ \t]{25,}/g, (run) => `‹${say.spaces(run.length)}›`);
}
