// A login that goes step by step: something to scan, to open, to enter elsewhere,
// or a question.
import { useEffect, useState } from "preact/hooks";
import { t as common } from "../i18n";
import { t } from "../i18n/login";
import { fail } from "../state/toast";
import { safeHref, visible } from "../text/links";
import type { LoginStep } from "../wire/reads";
import { Dialog } from "./dialog";
import { Field } from "./field";
import { Copy } from "./list";

interface Steps {
  start(): Promise<LoginStep>;
  /** next waits for the next step, with the answer to this one if there is one. */
  next(answer?: string): Promise<LoginStep>;
  cancel(): Promise<unknown>;
}

export function Login({ title, steps, onClose }: { title: string; steps: Steps; onClose(done: boolean): void }) {
  const [step, setStep] = useState<LoginStep>();
  const [answer, setAnswer] = useState("");
  const [sent, setSent] = useState<{ text: string }>();
  useEffect(() => {
    let left = false;
    const follow = async (first: Promise<LoginStep>) => {
      try {
        for (let s = await first; !left; s = await steps.next()) {
          if (s.state === "done") return onClose(true);
          setStep(s);
          if (s.ask) return; // the next step follows the answer
        }
      } catch (e) {
        if (!left) (fail(e), onClose(false));
      }
    };

    void follow(sent === undefined ? steps.start() : steps.next(sent.text));
    return () => {
      left = true;
    };
  }, [sent]);

  const close = () => {
    void steps.cancel().catch(() => {}); // it may have ended
    onClose(false);
  };

  const href = step?.url ? safeHref(step.url) : undefined;
  const submit = (e: Event) => {
    e.preventDefault();
    setSent({ text: answer });
    setAnswer("");
    setStep((s) => s && { ...s, ask: undefined });
  };

  return (
    <Dialog title={title} onClose={close}>
      <form onSubmit={submit}>
        {!step && <p role="status">{common("app.loading")}</p>}
        {step?.note && <p class="note">{visible(step.note)}</p>}
        {step?.qr_image && <img class="qr" src={step.qr_image} alt={t("login.qr")} />}
        {href && (
          <p>
            <a href={href} target="_blank" rel="noreferrer noopener">
              {t("login.open")}
            </a>
          </p>
        )}
        {step?.code && (
          <>
            <p class="hint">{t("login.code")}</p>
            <Copy label={t("login.code")} text={visible(step.code)} />
          </>
        )}
        {(step?.ask || step?.paste) && (
          <Field label={step.ask ? visible(step.ask) : t("login.paste")}>
            <input
              class="input"
              {...((step.hidden ? { type: "password" } : {}) as { type?: "text" })}
              autocomplete="off"
              required
              value={answer}
              onInput={(e) => setAnswer(e.currentTarget.value)}
            />
          </Field>
        )}
        {step && !step.ask && (
          <p class="hint" role="status">
            {t("login.waiting")}
          </p>
        )}
        <div class="row">
          <button type="button" class="button" onClick={(e) => e.currentTarget.closest("dialog")?.close()}>
            {common("dialog.cancel")}
          </button>
          {(step?.ask || step?.paste) && (
            <button type="submit" class="button primary">
              {t("login.send")}
            </button>
          )}
        </div>
      </form>
    </Dialog>
  );
}
