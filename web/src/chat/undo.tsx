// What undoing a turn does, before it is done.
import { useState } from "preact/hooks";
import { t as shell } from "../i18n";
import { t } from "../i18n/changes";
import { useRead } from "../state/read";
import { request } from "../state/store";
import { fail, toast } from "../state/toast";
import { visible } from "../text/links";
import { Dialog } from "../ui/dialog";
import { Read } from "../ui/read";
import type { UndoRead, UndoReport } from "../wire/reads";
import type { Failure } from "../wire/types";

export function Undo({ id, done, onClose }: { id: string; done?(by: string): void; onClose(): void }) {
  const one = useRead<UndoRead>(`undo/${encodeURIComponent(id)}`);
  const [force, setForce] = useState(false);
  const [busy, setBusy] = useState(false);
  const redo = one.data?.turn.undoes !== undefined;
  const apply = () => {
    setBusy(true);
    request<UndoReport>("undo.apply", { id, force }).then(
      (r) => {
        const n = (r.restored?.length ?? 0) + (r.deleted?.length ?? 0);
        toast(n === 1 ? t("undo.done.one") : t("undo.done", { n }));
        if (r.undo) done?.(r.undo);
        onClose();
      },
      (e: Failure) => {
        if (e?.code === "undo_done" && e.params?.by) {
          done?.(e.params.by); // the second of two devices gets the result of the first
          toast(t("undo.already"));
          onClose();
          return;
        }
        setBusy(false);
        fail(e);
      },
    );
  };

  return (
    <Dialog title={redo ? t("undo.title.redo") : t("undo.title")} onClose={onClose}>
      <Read of={one}>
        {({ preview: p }) => {
          if (!p) return <p>{t("undo.running")}</p>;
          const conflicts = p.skipped?.some((s) => s.conflict) ?? false;
          const some = (p.restored?.length ?? 0) + (p.deleted?.length ?? 0) > 0;

          return (
            <form class="undo" onSubmit={(e) => (e.preventDefault(), apply())}>
              <Paths title={t("undo.restored")} list={p.restored} />
              <Paths title={t("undo.deleted")} list={p.deleted} />
              <Paths title={t("undo.skipped")} list={p.skipped?.map((s) => `${s.path}: ${s.why}`)} />
              <Paths title={t("undo.gaps")} list={p.gaps} />
              <Paths title={t("undo.outside")} list={p.outside} />
              {p.interrupted && <p class="hint">{t("undo.interrupted")}</p>}
              {!some && !conflicts && <p>{t("undo.nothing")}</p>}
              {conflicts && (
                <div>
                  <p class="warned">{t("undo.conflict")}</p>
                  <label class="check">
                    <input type="checkbox" checked={force} onChange={(e) => setForce(e.currentTarget.checked)} />
                    {t("undo.force")}
                  </label>
                </div>
              )}
              <div class="row">
                <button type="button" class="button" onClick={onClose}>
                  {shell("dialog.cancel")}
                </button>
                <button type="submit" class="button primary" disabled={busy || !(some || force)}>
                  {redo ? t("undo.apply.redo") : t("undo.apply")}
                </button>
              </div>
            </form>
          );
        }}
      </Read>
    </Dialog>
  );
}

function Paths({ title, list }: { title: string; list?: string[] }) {
  if (!list?.length) return null;
  return (
    <div>
      <h3>{title}</h3>
      <ul class="paths">
        {list.map((p) => (
          <li key={p}>{visible(p)}</li>
        ))}
      </ul>
    </div>
  );
}
