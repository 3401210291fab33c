// The turns that changed files, each with its diff and undo.
import { useState } from "preact/hooks";
import { fullDate, t as shell } from "../i18n";
import { t } from "../i18n/changes";
import { t as tools } from "../i18n/tools";
import { Lines } from "../chat/diff";
import { undoing } from "../state/panel";
import { useRead } from "../state/read";
import { chatHref } from "../state/route";
import { sessions } from "../state/store";
import { markUndone } from "../state/undo";
import { label, visible } from "../text/links";
import { Read } from "../ui/read";
import type { UndoList, UndoRead, UndoTurn } from "../wire/reads";
import { Bar } from "./bar";

export default function Changes() {
  const list = useRead<UndoList>("undo");
  return (
    <>
      <Bar title={shell("page.changes")} />
      <div class="page">
        <div class="inner">
          <Read of={list}>
            {({ turns, total }) => (
              <>
                <p class="hint">{turns.length === 0 ? t("changes.none") : t("changes.text")}</p>
                {turns.map((x) => (
                  <Turn key={x.id} turn={x} reload={list.reload} />
                ))}
                {total > turns.length && <p class="hint">{t("changes.all", { n: total })}</p>}
              </>
            )}
          </Read>
        </div>
      </div>
    </>
  );
}

function Turn({ turn, reload }: { turn: UndoTurn; reload(): void }) {
  const [open, setOpen] = useState(false);
  const one = useRead<UndoRead>(open ? `undo/${encodeURIComponent(turn.id)}` : undefined);
  const chat = sessions.value?.find((s) => s.key === turn.session);
  const files = turn.changes ?? [];
  const undo = () => {
    undoing.value = {
      id: turn.id,
      done: (by) => {
        if (turn.undoes) markUndone(turn.undoes, undefined);
        else markUndone(turn.id, by);
        reload();
      },
    };
  };

  return (
    <section class="change">
      <h2>
        <time dateTime={turn.at}>{fullDate(turn.at)}</time>
      </h2>
      <p class="hint">
        <a href={chatHref(turn.session)}>{label(chat?.title || chat?.preview || "") || t("changes.chat")}</a>
        {turn.undoes && <span class="mark plain">{t("changes.isundo")}</span>}
        {turn.undone_by && <span class="mark plain">{t("changes.isundone")}</span>}
      </p>
      <ul class="paths">
        {files.slice(0, 8).map((f) => (
          <li key={f.path}>
            {visible(f.path)}{" "}
            <span class="hint">
              {f.what === "created" || f.what === "deleted" || f.what === "changed"
                ? t(`value.what.${f.what}`)
                : visible(f.what)}
            </span>
          </li>
        ))}
        {files.length > 8 && <li class="hint">{tools("footer.files", { n: files.length })}</li>}
        {turn.gaps?.map((g) => (
          <li key={g} class="hint">{`${t("undo.gaps")}: ${visible(g)}`}</li>
        ))}
      </ul>
      <div class="row">
        <button type="button" class="button" aria-expanded={open} onClick={() => setOpen(!open)}>
          {tools("footer.diff")}
        </button>
        {!turn.undone_by && !turn.running && (
          <button type="button" class="button" onClick={undo}>
            {turn.undoes ? tools("footer.redo") : tools("footer.undo")}
          </button>
        )}
      </div>
      {open && <Read of={one}>{(o) => <Lines diff={o.diff} />}</Read>}
    </section>
  );
}
