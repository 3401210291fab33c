// Chat platforms and people as the gateway describes them.
import { changed } from "../../state/read";
import { request } from "../../state/store";
import type { Schema, Values } from "../../ui/form";

export interface Platform {
  name: string;
  title?: string;
  login?: boolean;
  logout?: boolean;
  configured: boolean;
  enabled: boolean;
  state: "starting" | "running" | "failed" | "stopped";
  reason?: string;
  identity?: string;
  since?: string;
  retry?: string;
  received?: number;
  sent?: number;
}

export interface Described {
  name: string;
  title: string;
  schema: Schema;
  needed: string[];
  settings?: Values | null;
}

export interface People {
  pending: { channel: string; sender_id: string; expires_at: string }[];
  approved: { channel: string; sender_id: string; owner: boolean }[];
}

export interface Checked {
  valid: boolean;
  error?: string;
  identity?: string;
  checks?: { name: string; ok: boolean; detail?: string }[];
}

/** Step is what a person has to do to log in. */
export interface Step {
  state: "waiting" | "done";
  url?: string;
  code?: string;
  note?: string;
  qr_image?: string;
  expires?: string;
  ask?: string;
  hidden?: boolean;
  paste?: boolean;
}

/** act changes a channel and lets the lists be read again. */
export async function act<T = unknown>(action: string, payload: unknown): Promise<T> {
  try {
    return await request<T>("settings." + action, payload);
  } finally {
    changed("channels");
    if (action === "channel.configure") changed("settings");
    changed("pairing");
  }
}
