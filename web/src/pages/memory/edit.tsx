// Editing a memory file. A file that changed meanwhile is not overwritten: the
// page shows the difference and asks.
import { useRef, useState } from "preact/hooks";
import { t as say } from "../../i18n";
import { t } from "../../i18n/memory";
import { changed } from "../../state/read";
import { request } from "../../state/store";
import { fail, toast } from "../../state/toast";
import { kib } from "../../text/figures";
import { lineDiff } from "../../text/linediff";
import { read } from "../../wire/api";
import type { MemoryFile, MemoryRead } from "../../wire/reads";
import type { Failure } from "../../wire/types";
import { LineDiff } from "./diff";
import { nameOf } from "./name";

export function Edit({ file, scope, onClose }: { file: MemoryFile; scope?: string; onClose(): void }) {
  const area = useRef<HTMLTextAreaElement>(null);
  const base = useRef(file); // what the edit began with
  const [theirs, setTheirs] = useState<MemoryFile | undefined>(undefined);
  const [size, setSize] = useState(file.bytes);
  const [busy, setBusy] = useState(false);

  const save = (version: string) => {
    setBusy(true);
    request("memory.write", {
      file: nameOf(file.path),
      ...(scope ? { scope } : {}),
      text: area.current!.value,
      version,
    })
      .then(
        () => {
          toast(t("memory.saved"));
          changed("memory");
          onClose();
        },
        (e: Failure) => (e.code === "memory_stale" ? compare() : fail(e)),
      )
      .finally(() => setBusy(false));
  };

  const compare = async () => {
    const now = await read<MemoryRead>("memory", { scope }).catch(fail);
    setTheirs(now?.files.find((f) => f.path === file.path));
  };

  const takeTheirs = () => {
    base.current = theirs!;
    area.current!.value = theirs!.text;
    setSize(theirs!.bytes);
    setTheirs(undefined);
  };

  const over = size > file.cap;

  return (
    <form class="editor" onSubmit={(e) => (e.preventDefault(), save(base.current.version))}>
      <textarea
        ref={area}
        class="input"
        rows={20}
        dir="auto"
        autofocus
        aria-label={t("memory.edit.label", { file: file.path })}
        defaultValue={file.text}
        onInput={(e) => setSize(new TextEncoder().encode(e.currentTarget.value).length)}
      />
      <div class="between">
        <span class={over ? "wrong" : "hint"} role="status">
          {over
            ? t("memory.toolarge", { cap: kib(file.cap) })
            : t("memory.used", { used: kib(size), cap: kib(file.cap) })}
        </span>
        <span class="row">
          <button type="button" class="button" onClick={onClose}>
            {say("dialog.cancel")}
          </button>
          <button type="submit" class="button primary" disabled={busy || over || theirs !== undefined}>
            {say("dialog.save")}
          </button>
        </span>
      </div>
      {theirs && (
        <div class="stale" role="alert">
          <h3>{t("memory.stale")}</h3>
          <p class="hint">{t("memory.stale.text")}</p>
          <LineDiff lines={lineDiff(theirs.text, area.current!.value)} />
          <div class="row">
            <button type="button" class="button" onClick={takeTheirs}>
              {t("memory.stale.theirs")}
            </button>
            <button type="button" class="button danger" disabled={busy} onClick={() => save(theirs.version)}>
              {t("memory.stale.mine")}
            </button>
          </div>
        </div>
      )}
    </form>
  );
}
