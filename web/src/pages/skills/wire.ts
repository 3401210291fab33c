// Changes of skills.
import { changed } from "../../state/read";
import { request } from "../../state/store";

/** act changes a skill and lets the list be read again. */
export async function act<T = unknown>(action: string, payload: unknown): Promise<T> {
  const out = await request<T>("skill." + action, payload);
  changed("settings");
  return out;
}
