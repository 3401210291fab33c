// What the browser keeps. Every name contains the id of the gateway, so two
// gateways on one host never meet.
import type { Store } from "../wire/outbox";

/** storage is undefined if the browser refuses it. */
export function storage(): Store | undefined {
  try {
    localStorage.setItem("nanobot:probe", "1");
    localStorage.removeItem("nanobot:probe");
    return localStorage;
  } catch {
    return undefined;
  }
}

export const nameOf = (gateway: string, what: string) => `nanobot:${gateway}:${what}`;

/** uuid also works on plain HTTP, where crypto.randomUUID is missing. */
export function uuid(): string {
  const b = crypto.getRandomValues(new Uint8Array(16));
  b[6] = (b[6]! & 0x0f) | 0x40;
  b[8] = (b[8]! & 0x3f) | 0x80;
  const hex = Array.from(b, (x) => x.toString(16).padStart(2, "0")).join("");
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}

/** Drafts keeps what was typed and not sent, by conversation. */
export class Drafts {
  private readonly memory = new Map<string, string>();

  constructor(
    private readonly store: Store | undefined,
    private readonly gateway: string,
  ) {}

  private name(key: string) {
    return nameOf(this.gateway, "draft:" + key);
  }

  read(key: string): string {
    const kept = this.memory.get(key);
    if (kept !== undefined) return kept;
    try {
      return this.store?.getItem(this.name(key)) ?? "";
    } catch {
      return "";
    }
  }

  write(key: string, text: string) {
    this.memory.set(key, text);
    try {
      // A temporary chat leaves nothing behind.
      if (text === "" || key.startsWith("websocket:temp-")) this.store?.removeItem(this.name(key));
      else this.store?.setItem(this.name(key), text);
    } catch {
      // Full: it stays in memory.
    }
  }
}
