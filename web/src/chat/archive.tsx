// Conversations that were archived or deleted; each can be brought back.
import { useState } from "preact/hooks";
import { fullDate } from "../i18n";
import { t } from "../i18n/chat";
import { chatHref, go } from "../state/route";
import { refreshSessions, request } from "../state/store";
import { useRead } from "../state/read";
import { fail } from "../state/toast";
import { label } from "../text/links";
import type { Restored } from "../wire/reads";
import type { Session, SessionPage } from "../wire/types";
import { Dialog } from "../ui/dialog";
import { Confirm } from "../ui/list";
import { Read } from "../ui/read";

export function Archive({ onClose }: { onClose(): void }) {
  const [cursors, setCursors] = useState<string[]>([]);
  const list = useRead<SessionPage>(
    "sessions",
    { archived: 1, limit: 50, cursor: cursors[cursors.length - 1] },
    "sessions",
  );

  const restore = (id: string) =>
    request<Restored>("session.restore", { id }).then(({ key }) => {
      void refreshSessions();
      onClose();
      go(chatHref(key));
    }, fail);

  const [doomed, setDoomed] = useState<Session | undefined>(undefined);
  const nameOf = (s: Session) => label(s.title || s.preview) || label(s.key);
  const erase = (id: string) => void request("session.erase", { id }).then(() => refreshSessions(), fail);

  return (
    <Dialog title={t("archive.title")} onClose={onClose}>
      <Read of={list}>
        {(page) =>
          page.sessions.length === 0 ? (
            <p>{t("archive.empty")}</p>
          ) : (
            <>
              <ul class="archive">
                {page.sessions.map((s) => (
                  <li key={s.archive_id}>
                    <span class="name">{nameOf(s)}</span>
                    <span class="hint">{fullDate(s.updated_at)}</span>
                    <button type="button" class="button" onClick={() => void restore(s.archive_id!)}>
                      {t("archive.restore")}
                    </button>
                    <button
                      type="button"
                      class="button danger"
                      aria-label={`${t("archive.erase")} ${nameOf(s)}`}
                      onClick={() => setDoomed(s)}
                    >
                      {t("archive.erase")}
                    </button>
                  </li>
                ))}
              </ul>
              {page.cursor && (
                <button type="button" class="button" onClick={() => setCursors([...cursors, page.cursor!])}>
                  {t("archive.next")}
                </button>
              )}
            </>
          )
        }
      </Read>
      <div class="row">
        <button type="button" class="button" onClick={onClose}>
          {t("archive.close")}
        </button>
      </div>
      {doomed && (
        <Confirm
          title={t("archive.erase.title", { title: nameOf(doomed) })}
          text={t("archive.erase.text")}
          action={t("archive.erase")}
          onConfirm={() => erase(doomed.archive_id!)}
          onClose={() => setDoomed(undefined)}
        />
      )}
    </Dialog>
  );
}
