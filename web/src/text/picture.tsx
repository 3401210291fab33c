// A picture from where a conversation works: one that an answer names by its path, or
// that the agent sent.
import { useEffect, useState } from "preact/hooks";
import { pictureOf } from "../state/download";
import { showFile } from "../state/panel";
import { route } from "../state/route";
import { visible } from "./links";

const ends = /\.(?:png|jpe?g|gif|webp)$/i;

/** picturePath is the path of a picture that an address names, or undefined: it has no
 *  scheme, other than that of a file, and ends like a picture. */
export function picturePath(href: string): string | undefined {
  const path = href.trim().replace(/^file:\/\/(?=\/)/, "");
  if (!ends.test(path) || /^(?:[a-z][a-z\d+.-]*:|\/\/|#)/i.test(path)) return undefined;
  try {
    return decodeURIComponent(path);
  } catch {
    return path; // a % that is none of an address
  }
}

/** Picture shows a file of the conversation that is open; a click shows it large. What
 *  cannot be had is its name. */
export function Picture({ path, name }: { path: string; name: string }) {
  const [src, setSrc] = useState<string | undefined>(undefined);
  const [missing, setMissing] = useState(false);
  const r = route.value;
  const key = r.page === "chat" ? r.key : undefined;
  useEffect(() => {
    let here = true;
    setMissing(key === undefined);
    if (key !== undefined) {
      pictureOf(key, path).then(
        (url) => here && setSrc(url),
        () => here && setMissing(true),
      );
    }

    return () => {
      here = false;
    };
  }, [key, path]);

  const label = visible(name);

  return (
    <button type="button" class="picture" title={label} onClick={() => showFile(path)}>
      {src !== undefined && !missing ? <img src={src} alt={label} onError={() => setMissing(true)} /> : label}
    </button>
  );
}
