// Messages that the gateway has not accepted yet. They survive a reload of the
// page and are sent once: the gateway takes a turn_id only once in a chat.

export interface Outgoing {
  chat: string;
  turn: string;
  text: string;
  at: string;
  media?: { upload_id: string; name: string; blob?: string }[]; // files that were sent ahead
  failed?: string; // why the gateway refused it
}

export interface Store {
  getItem(key: string): string | null;
  setItem(key: string, value: string): void;
  removeItem(key: string): void;
}

function valid(m: unknown): m is Outgoing {
  const o = m as Outgoing | null;
  return (
    typeof o === "object" &&
    o !== null &&
    typeof o.chat === "string" &&
    typeof o.turn === "string" &&
    typeof o.text === "string"
  );
}

/** kept says that a message may be in the store: a temporary chat leaves nothing behind. */
const kept = (m: Outgoing) => !m.chat.startsWith("temp-");

export class Outbox {
  private items: Outgoing[] = [];
  private stored = true; // what waits is in the store, which other tabs change, too

  constructor(
    private readonly store: Store | undefined,
    private readonly name: string,
  ) {
    this.stored = store !== undefined;
  }

  private load() {
    if (!this.stored) return;
    const own = this.items.filter((m) => !kept(m));
    try {
      const all: unknown = JSON.parse(this.store?.getItem(this.name) ?? "[]");
      this.items = [...(Array.isArray(all) ? all.filter(valid).filter(kept) : []), ...own];
    } catch {
      this.items = own; // something else is there
    }
  }

  private save() {
    const all = this.items.filter(kept);
    try {
      if (all.length === 0) this.store?.removeItem(this.name);
      else this.store?.setItem(this.name, JSON.stringify(all));
      this.stored = this.store !== undefined;
    } catch {
      this.stored = false; // blocked or full: kept until the page is closed
    }
  }

  /** add reports whether the message survives a reload. */
  add(m: Outgoing): boolean {
    this.load();
    this.items.push(m);
    this.save();
    return this.stored && kept(m);
  }

  remove(turn: string) {
    this.load();
    if (!this.items.some((m) => m.turn === turn)) return;
    this.items = this.items.filter((m) => m.turn !== turn);
    this.save();
  }

  fail(turn: string, why: string) {
    this.load();
    this.items = this.items.map((m) => (m.turn === turn ? { ...m, failed: why } : m));
    this.save();
  }

  retry(turn: string) {
    this.load();
    this.items = this.items.map((m) => (m.turn === turn ? { ...m, failed: undefined } : m));
    this.save();
  }

  of(chat: string): Outgoing[] {
    this.load();
    return this.items.filter((m) => m.chat === chat);
  }

  /** unsent are the messages to send, in the order they were written. */
  unsent(): Outgoing[] {
    this.load();
    return this.items.filter((m) => m.failed === undefined);
  }
}
