// Skills as the gateway describes them.
import { changed } from "../../state/read";
import { request } from "../../state/store";

export interface Skill {
  name: string;
  description: string;
  source?: "workspace" | "installed" | "builtin";
  available: boolean;
  missing?: string;
  disabled: boolean;
  always: boolean;
  changed: boolean;
  installed_at?: string;
  from?: string;
  homepage?: string;
  path?: string;
  notes?: string[];
  text?: string;
  file?: string;
  version?: string;
}

/** act changes a skill and lets the list be read again. */
export async function act<T = unknown>(action: string, payload: unknown): Promise<T> {
  const out = await request<T>("skill." + action, payload);
  changed("settings");
  return out;
}
