// A block of code, coloured when it is complete.
import { useEffect, useState } from "preact/hooks";
import { t } from "../i18n";
import { toast } from "../state/toast";
import { highlight } from "./highlight";
import type { Piece } from "./highlight";

export function Code({ lang, text, closed }: { lang: string; text: string; closed: boolean }) {
  const [pieces, setPieces] = useState<Piece[] | undefined>(undefined);
  useEffect(() => {
    setPieces(undefined);
    if (!closed || !lang) return;
    let current = true;
    void highlight(lang, text).then((p) => current && setPieces(p));
    return () => {
      current = false;
    };
  }, [lang, text, closed]);

  return (
    <div class="code">
      <div class="head">
        <span>{lang || t("chat.code")}</span>
        <button type="button" class="button plain" onClick={() => void copy(text)}>
          {t("chat.copy")}
        </button>
      </div>
      <pre tabIndex={0}>
        <code>
          {pieces ? pieces.map(([kind, piece]) => (kind ? <span class={"h-" + kind}>{piece}</span> : piece)) : text}
        </code>
      </pre>
    </div>
  );
}

export async function copy(text: string) {
  try {
    await navigator.clipboard.writeText(text); // missing on plain HTTP
    toast(t("chat.copied"));
  } catch {
    toast(t("chat.nocopy"), true);
  }
}
