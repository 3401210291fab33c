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

export const exportChat = (key: string, format: "md" | "jsonl") => download(`${sessionPath(key)}/export?format=${format}`);
