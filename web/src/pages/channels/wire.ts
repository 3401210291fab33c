// Changes of chat platforms and people.
import { changed } from "../../state/read";
import { request } from "../../state/store";

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
