// Files of the gateway. The browser follows an address that is good for one request,
// so that a large file never has to fit into the memory of the page.
import { sessionPath } from "../wire/api";
import type { Download } from "../wire/reads";
import { request } from "./store";

/** download saves the answer of a read as a file. */
export async function download(read: string) {
  const { url } = await request<Download>("download.create", { read });
  const a = document.createElement("a");
  a.href = url;
  a.download = "";
  a.click();
}

const pictures = new Map<string, Promise<string>>();
const fresh = 30_000; // ms: a later turn may write another picture to the same path

/** pictureOf is an address of a picture from where a conversation works. It is good for
 *  a while; an element that has loaded it keeps the picture. */
export function pictureOf(key: string, path: string): Promise<string> {
  const id = `${key}\n${path}`;
  const known = pictures.get(id);
  if (known) return known;
  const url = (async () => {
    const { url } = await request<Download>("download.create", {
      read: `${sessionPath(key)}/file-preview?download=1&path=${encodeURIComponent(path)}`,
    });
    const answer = await fetch(url);
    if (!answer.ok || !answer.headers.get("Content-Type")?.startsWith("image/")) throw new Error("no picture");
    return URL.createObjectURL(await answer.blob());
  })();

  pictures.set(id, url);
  url.catch(() => pictures.delete(id)); // it may come later
  setTimeout(() => {
    pictures.delete(id);
    void url.then(URL.revokeObjectURL, () => {});
  }, fresh);
  return url;
}

export const exportChat = (key: string, format: "md" | "jsonl") =>
  download(`${sessionPath(key)}/export?format=${format}`);
