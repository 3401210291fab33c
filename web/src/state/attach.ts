// Files that wait in a composer. They are sent ahead of their message.
import { signal } from "@preact/signals";
import type { Signal } from "@preact/signals";
import { Refused, upload } from "../wire/api";
import type { Outgoing } from "../wire/outbox";
import type { Failure } from "../wire/types";

export interface Attached {
  id: number;
  name: string;
  type: string;
  size: number;
  share: number; // of it that was sent, 0 to 1
  upload?: string; // the gateway has it
  failure?: Failure;
  blob?: string; // of a picture
  abort(): void;
}

// The limits of the channel: docs/reference/websocket.md.
export const limits = { files: 4, file: 6 << 20, video: 20 << 20, total: 24 << 20, videos: 1 };

export type Why = "attach.empty" | "attach.type" | "attach.large" | "attach.many" | "attach.total" | "attach.videos";

const known: Record<string, string> = {
  png: "image/png",
  jpg: "image/jpeg",
  jpeg: "image/jpeg",
  webp: "image/webp",
  gif: "image/gif",
  mp4: "video/mp4",
  webm: "video/webm",
  mov: "video/quicktime",
  pdf: "application/pdf",
  json: "application/json",
  yaml: "text/yaml",
  yml: "text/yaml",
  toml: "text/toml",
  xml: "text/xml",
  svg: "text/xml",
  html: "text/html",
  htm: "text/html",
  csv: "text/csv",
  md: "text/markdown",
  doc: "application/msword",
  xls: "application/vnd.ms-excel",
  ppt: "application/vnd.ms-powerpoint",
};
const office = /^application\/vnd\.(?:openxmlformats-officedocument|oasis\.opendocument)\./;
const plain =
  /^(?:txt|log|ini|cfg|conf|env|sh|bash|zsh|py|go|js|mjs|ts|tsx|jsx|java|kt|c|h|cc|cpp|hpp|rs|rb|php|pl|lua|swift|sql|css|scss|diff|patch|tex|rst|org|vue|dart|r|tsv|srt|vtt)$/i;

/** typeOf is the type that the gateway takes a file for, "" if it takes none. */
export function typeOf(name: string, type: string): string {
  const end = /\.([^.]+)$/.exec(name)?.[1]?.toLowerCase() ?? "";
  const clean = type.split(";")[0]!.toLowerCase();
  if (Object.values(known).includes(clean) || office.test(clean)) return clean;
  if (known[end]) return known[end];
  if (plain.test(end) || clean.startsWith("text/")) return "text/plain";
  return "";
}

/** refusal says why a file cannot be added to others. */
export function refusal(
  others: readonly { type: string; size: number }[],
  f: { type: string; size: number },
): Why | undefined {
  const video = f.type.startsWith("video/");
  if (f.size === 0) return "attach.empty";
  if (f.type === "") return "attach.type";
  if (f.size > (video ? limits.video : limits.file)) return "attach.large";
  if (others.length >= limits.files) return "attach.many";
  if (video && others.some((o) => o.type.startsWith("video/"))) return "attach.videos";
  if (others.reduce((n, o) => n + o.size, f.size) > limits.total) return "attach.total";
  return undefined;
}

const lists = new Map<string, Signal<readonly Attached[]>>();

/** attached are the files of a composer. */
export function attached(key: string): Signal<readonly Attached[]> {
  let s = lists.get(key);
  if (!s) lists.set(key, (s = signal([])));
  return s;
}

let last = 0;

/** attach begins to send a file; it returns why it does not. */
export function attach(key: string, file: File): Why | undefined {
  const list = attached(key);
  const name = file.name || "file";
  const type = typeOf(name, file.type);
  const why = refusal(list.peek(), { type, size: file.size });
  if (why) return why;
  const id = ++last;
  const change = (c: Partial<Attached>) => (list.value = list.peek().map((a) => (a.id === id ? { ...a, ...c } : a)));
  const up = upload(file, name, type, (share) => change({ share }));
  const blob = type.startsWith("image/") ? URL.createObjectURL(file) : undefined;
  list.value = [...list.peek(), { id, name, type, size: file.size, share: 0, blob, abort: up.abort }];
  up.done.then(
    (r) => change({ upload: r.upload_id, share: 1 }),
    (e) => change({ failure: e instanceof Refused ? e.failure : { status: 0, message: String(e) } }),
  );
  return undefined;
}

export function detach(key: string, id: number) {
  const list = attached(key);
  const gone = list.peek().find((a) => a.id === id);
  list.value = list.peek().filter((a) => a.id !== id);
  if (gone && !gone.upload) gone.abort();
  if (gone?.blob) URL.revokeObjectURL(gone.blob);
}

/** taken are the files for a message, which the composer does not have any more. */
export function taken(key: string): NonNullable<Outgoing["media"]> {
  const list = attached(key);
  const out = list
    .peek()
    .flatMap((a) => (a.upload ? [{ upload_id: a.upload, name: a.name, ...(a.blob ? { blob: a.blob } : {}) }] : []));
  list.value = [];
  return out;
}
