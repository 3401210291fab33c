// Forgetting: first everything that would go, then the removal.
import { useEffect, useState } from "preact/hooks";
import { failureText, t as say } from "../../i18n";
import { t } from "../../i18n/memory";
import { changed } from "../../state/read";
import { request } from "../../state/store";
import { toast } from "../../state/toast";
import { visible } from "../../text/links";
import type { Forgetting, Forgotten, Occurrence } from "../../wire/reads";
import type { Failure } from "../../wire/types";
import { Dialog } from "../../ui/dialog";
import { Field } from "../../ui/field";

export function Forget({ text, onClose }: { text: string; onClose(): void }) {
  const [words, setWords] = useState(text);
  const [found, setFound] = useState<(Forgetting & { of: string }) | undefined>(undefined);
  const [problem, setProblem] = useState("");
  const [busy, setBusy] = useState(false);
  const [left, setLeft] = useState<string[] | undefined>(undefined);

  const failed = (e: Failure) => setProblem(failureText(e));
  const look = (of: string) => {
    setBusy(true);
    setProblem("");
    setFound(undefined);
    request<Forgetting>("memory.forget_preview", { text: of })
      .then((p) => setFound({ ...p, of }), failed)
      .finally(() => setBusy(false));
  };

  useEffect(() => {
    if (text) look(text);
  }, []);
  const forget = () => {
    setBusy(true);
    request<Forgotten>("memory.forget", { text: found!.of, preview: found!.preview })
      .then((r) => {
        changed("memory");
        toast(t("memory.forgotten", { n: found!.lines.length + found!.summaries.length }));
        if (r.left.length === 0) onClose();
        else setLeft(r.left);
      }, failed)
      .finally(() => setBusy(false));
  };

  const none = found && found.lines.length + found.summaries.length === 0;

  return (
    <Dialog title={t("memory.forget.title")} onClose={onClose}>
      {left ? (
        <div class="forget">
          <p>{t("memory.forget.left")}</p>
          <ul>
            {left.map((x) => (
              <li key={x}>{visible(x)}</li>
            ))}
          </ul>
          <div class="row">
            <button type="button" class="button" onClick={onClose}>
              {t("memory.close")}
            </button>
          </div>
        </div>
      ) : (
        <form class="forget" onSubmit={(e) => (e.preventDefault(), look(words))}>
          <Field label={t("memory.forget.words")} hint={t("memory.forget.hint")} wrong={problem || undefined}>
            <input class="input" value={words} maxLength={1000} onInput={(e) => setWords(e.currentTarget.value)} />
          </Field>
          {found && (
            <div role="status">
              {none ? (
                <p>{t("memory.forget.none")}</p>
              ) : (
                <p>{t("memory.forget.found", { lines: found.lines.length, summaries: found.summaries.length })}</p>
              )}
              <Places title={t("memory.forget.lines")} places={found.lines} />
              <Places title={t("memory.forget.summaries")} places={found.summaries} />
              {found.skills.length > 0 && (
                <p class="hint">{t("memory.forget.skills", { names: found.skills.map(visible).join(", ") })}</p>
              )}
              {!none && <p class="wrong">{t("memory.forget.final")}</p>}
            </div>
          )}
          <div class="row">
            <button type="button" class="button" onClick={onClose}>
              {say("dialog.cancel")}
            </button>
            <button type="submit" class="button" disabled={busy || words.trim().length < 2}>
              {t("memory.forget.preview")}
            </button>
            <button
              type="button"
              class="button danger"
              disabled={busy || !found || none || found.of !== words}
              onClick={forget}
            >
              {t("memory.forget")}
            </button>
          </div>
        </form>
      )}
    </Dialog>
  );
}

function Places({ title, places }: { title: string; places: Occurrence[] }) {
  if (places.length === 0) return null;
  return (
    <>
      <h3>{title}</h3>
      <ul class="places" tabIndex={0} aria-label={title}>
        {places.map((p, n) => (
          <li key={n}>
            <span class="hint">{visible(p.file)}</span> {visible(p.line)}
          </li>
        ))}
      </ul>
    </>
  );
}
