// What is shown beside the conversation on a wide screen, and above it otherwise:
// a file, the changes of a turn, the dialog that undoes them.
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { t } from "../i18n/changes";
import { panel, undoing } from "../state/panel";
import type { Panel } from "../state/panel";
import { download } from "../state/download";
import { useRead } from "../state/read";
import { fail } from "../state/toast";
import { Code } from "../text/code";
import { visible } from "../text/links";
import { Dialog } from "../ui/dialog";
import { Icon } from "../ui/icon";
import { Read } from "../ui/read";
import { sessionPath } from "../wire/api";
import type { FilePreview, UndoRead } from "../wire/reads";
import { Lines } from "./diff";
import { Undo } from "./undo";

const wide = matchMedia("(min-width: 1440px)");

export default function Beside() {
  const shown = panel.value;
  const undo = undoing.value;
  return (
    <>
      {shown && <Frame key={JSON.stringify(shown)} shown={shown} />}
      {undo && <Undo key={undo.id} id={undo.id} done={undo.done} onClose={() => (undoing.value = undefined)} />}
    </>
  );
}

function Frame({ shown }: { shown: Panel }) {
  const [beside, setBeside] = useState(wide.matches);
  useEffect(() => {
    const change = () => setBeside(wide.matches);
    wide.addEventListener("change", change);
    return () => wide.removeEventListener("change", change);
  }, []);

  const close = () => (panel.value = undefined);
  const title = shown.kind === "file" ? visible(shown.path) : t("panel.diff");
  const content: ComponentChildren =
    shown.kind === "file" ? <File chat={shown.key} path={shown.path} /> : <Changed id={shown.id} />;
  if (!beside) {
    return (
      <Dialog title={title} onClose={close}>
        <div class="panel-body">{content}</div>
        <form method="dialog" class="row">
          <button type="submit" class="button">
            {t("panel.close")}
          </button>
        </form>
      </Dialog>
    );
  }

  return (
    <aside class="panel" aria-label={title} onKeyDown={(e) => e.key === "Escape" && close()}>
      <header class="bar">
        <h2>{title}</h2>
        <button type="button" class="button plain square" aria-label={t("panel.close")} onClick={close}>
          <Icon name="close" />
        </button>
      </header>
      <div class="panel-body">{content}</div>
    </aside>
  );
}

function File({ chat, path }: { chat: string; path: string }) {
  const file = useRead<FilePreview>(`${sessionPath(chat)}/file-preview`, { path });
  return (
    <Read of={file}>
      {(f) => (
        <>
          <p class="hint">
            {t("panel.size", { n: Math.max(1, Math.round(f.size / 1024)) })} {f.truncated && t("panel.cut")}{" "}
            <button
              type="button"
              class="button"
              onClick={() =>
                void download(`${sessionPath(chat)}/file-preview?download=1&path=${encodeURIComponent(path)}`).catch(
                  fail,
                )
              }
            >
              {t("panel.download")}
            </button>
          </p>
          {f.data_url?.startsWith("data:image/") ? (
            <img src={f.data_url} alt={visible(f.name)} />
          ) : f.content !== undefined ? (
            <Code lang={/\.(\w+)$/.exec(f.name)?.[1] ?? ""} text={f.content} closed />
          ) : (
            <p class="hint">{t("panel.binary")}</p>
          )}
        </>
      )}
    </Read>
  );
}

function Changed({ id }: { id: string }) {
  const one = useRead<UndoRead>(`undo/${encodeURIComponent(id)}`);
  return <Read of={one}>{(o) => <Lines diff={o.diff} />}</Read>;
}
