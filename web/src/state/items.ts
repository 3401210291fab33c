// The parts of a conversation, in the order in which a person sees them.
import type { Edit, Usage } from "../wire/types";

export interface Attachment {
  name: string;
  url?: string;
}

export interface UserItem {
  kind: "user";
  id: string;
  turn?: string;
  text: string;
  at?: string;
  media?: Attachment[];
  command?: boolean;
  state: "sent" | "pending" | "failed";
  why?: string;
}

export interface TextItem {
  kind: "text";
  id: string;
  turn?: string;
  text: string;
  open: boolean; // more is to come
  at?: string;
  media?: Attachment[];
  interrupted?: boolean;
}

export interface ThoughtItem {
  kind: "thought";
  id: string;
  turn?: string;
  text: string;
  open: boolean;
}

export interface ToolItem {
  kind: "tool";
  id: string; // of the call
  turn?: string;
  name: string;
  args: string; // JSON, or a part of it while the model writes
  phase: "writing" | "running" | "done" | "error" | "lost";
  result?: string;
  ms?: number;
  untrusted?: boolean;
  edits?: Edit[];
}

export interface NoticeItem {
  kind: "notice";
  id: string;
  text: string;
  bad?: boolean;
}

export interface QuestionItem {
  kind: "question";
  id: string;
  turn?: string;
  text: string;
  options: string[];
  code?: string; // of an approval; other questions are answered by a message
  expires?: string;
  state: "open" | "sent" | "answered" | "gone";
  option?: string;
  why?: string;
}

export interface EndItem {
  kind: "end";
  id: string;
  turn?: string;
  ms?: number;
  usage?: Usage;
  model?: string;
  stop?: string;
  error?: string;
}

export type Item = UserItem | TextItem | ThoughtItem | ToolItem | NoticeItem | QuestionItem | EndItem;

export interface Thread {
  seq?: number; // of the last event that is contained; undefined: never attached
  items: readonly Item[];
  running?: { turn?: string; since?: number };
  model?: string;
  more: boolean; // older messages are on the gateway
  before: number | null;
  loaded: boolean; // a page was read
  stale: boolean; // events were missed: read the page again
  partial?: string; // the turn that was joined after it had begun
}

export const emptyThread: Thread = { items: [], more: false, before: null, loaded: false, stale: false };

/** textOf shows arguments as they were written. */
export function textOf(v: unknown): string {
  if (v === undefined || v === null) return "";
  return typeof v === "string" ? v : JSON.stringify(v);
}
