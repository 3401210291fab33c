// Versions of the memory files.
import { useEffect, useState } from "preact/hooks";
import { t as say, fullDate } from "../../i18n";
import { t } from "../../i18n/memory";
import { changed, useRead } from "../../state/read";
import { request } from "../../state/store";
import { fail, toast } from "../../state/toast";
import { when } from "../../text/figures";
import { visible } from "../../text/links";
import { read } from "../../wire/api";
import { Dialog } from "../../ui/dialog";
import { Read } from "../../ui/read";
import type { MemoryChange, MemoryDiff, MemoryLog, MemoryUndone } from "../../wire/reads";
import { PatchView } from "./diff";

export function History({ id }: { id?: string }) {
  const first = useRead<MemoryLog>("memory/log", { limit: 50 }, "memory");
  const [more, setMore] = useState<MemoryLog | undefined>(undefined);
  useEffect(() => setMore(undefined), [first.data]);
  const next = (cursor: string) =>
    read<MemoryLog>("memory/log", { limit: 50, cursor }).then(
      (l) => setMore((m) => ({ changes: [...(m?.changes ?? []), ...l.changes], cursor: l.cursor })),
      fail,
    );

  return (
    <section>
      <h2>{t("memory.history")}</h2>
      <Read of={first}>
        {(log) => {
          const cursor = more ? more.cursor : log.cursor;
          const all = [...log.changes, ...(more?.changes ?? [])];
          return (
            <>
              {all.length === 0 && <p class="hint">{t("memory.history.none")}</p>}
              <ul class="changes">
                {all.map((c) => (
                  <Entry key={c.id} change={c} open={c.id === id} />
                ))}
              </ul>
              {cursor && (
                <button type="button" class="button" onClick={() => void next(cursor)}>
                  {t("memory.history.more")}
                </button>
              )}
            </>
          );
        }}
      </Read>
    </section>
  );
}

function Entry({ change, open }: { change: MemoryChange; open: boolean }) {
  return (
    <li>
      <a class="change" href={open ? "#/memory/history" : `#/memory/history/${change.id}`} aria-expanded={open}>
        <span>{visible(change.subject)}</span>
        <time dateTime={change.time} title={fullDate(change.time)}>
          {when(change.time)}
        </time>
      </a>
      {open && <Detail change={change} />}
    </li>
  );
}

function Detail({ change }: { change: MemoryChange }) {
  const [asked, setAsked] = useState<"only" | "all" | undefined>(undefined);
  const one = useRead<MemoryDiff>("memory/diff", { change: change.id });
  return (
    <div class="detail">
      {change.body && <p class="body">{visible(change.body)}</p>}
      <Read of={one}>
        {(d) => (d.diff ? <PatchView diff={d.diff} /> : <p class="hint">{t("memory.diff.none")}</p>)}
      </Read>
      <div class="row">
        <button type="button" class="button" onClick={() => setAsked("only")}>
          {t("memory.undo.only")}
        </button>
        <button type="button" class="button danger" onClick={() => setAsked("all")}>
          {t("memory.undo.all")}
        </button>
      </div>
      {asked && <Restore change={change} only={asked === "only"} onClose={() => setAsked(undefined)} />}
    </div>
  );
}

function Restore({ change, only, onClose }: { change: MemoryChange; only: boolean; onClose(): void }) {
  const [busy, setBusy] = useState(false);
  const run = () => {
    setBusy(true);
    request<MemoryUndone>("memory.restore", { id: change.id, ...(only ? { only } : {}) })
      .then((r) => {
        toast(
          r.commit
            ? t("memory.restored", { files: (r.files ?? []).map(visible).join(", ") })
            : t("memory.restored.nothing"),
        );
        changed("memory");
        onClose();
      }, fail)
      .finally(() => setBusy(false));
  };

  return (
    <Dialog title={t(only ? "memory.undo.only" : "memory.undo.all")} onClose={onClose}>
      <p>{t(only ? "memory.undo.only.text" : "memory.undo.all.text", { at: when(change.time) })}</p>
      <div class="row">
        <button type="button" class="button" onClick={onClose}>
          {say("dialog.cancel")}
        </button>
        <button type="button" class="button danger" disabled={busy} onClick={run}>
          {t("memory.undo.do")}
        </button>
      </div>
    </Dialog>
  );
}
