// The tools of a server: which the agent gets, and whether their descriptions were
// reviewed.
import { useState } from "preact/hooks";
import { count } from "../../i18n";
import { t } from "../../i18n/mcp";
import { fail, toast } from "../../state/toast";
import { visible } from "../../text/links";
import { State } from "../../ui/list";
import type { Server, ToolChoice, Trial } from "../../wire/reads";
import { act } from "./wire";

export function Tools({ s }: { s: Server }) {
  const [trial, setTrial] = useState<Trial>();
  const [choice, setChoice] = useState<{ all: string[]; on: Set<string> }>();
  const [busy, setBusy] = useState(false);
  const during = (what: Promise<unknown>) => {
    setBusy(true);
    void what.catch(fail).finally(() => setBusy(false));
  };

  const test = () => during(act<Trial>("test", { name: s.name }).then((x) => (setTrial(x), setChoice(undefined))));
  const plain = (name: string) => name.replace(`mcp_${s.name}_`, "");
  const choose = () =>
    during(
      act<ToolChoice>("tools", { name: s.name }).then((x) => {
        const all = x.tools.map((o) => plain(o.name));
        setChoice({
          all,
          on: new Set(
            x.enabled_tools.includes("*")
              ? all
              : all.filter((n) => x.enabled_tools.includes(n) || x.enabled_tools.includes(`mcp_${s.name}_${n}`)),
          ),
        });

        setTrial(undefined);
      }),
    );

  const keep = () => {
    const { all, on } = choice!;
    during(
      act("tools", { name: s.name, enabled_tools: on.size === all.length ? ["*"] : all.filter((n) => on.has(n)) }).then(
        () => (setChoice(undefined), toast(t("mcp.saved"))),
      ),
    );
  };

  const accept = () =>
    during(
      act("accept", { name: s.name, digest: trial!.digest }).then(
        () => (setTrial(undefined), toast(t("mcp.accepted"))),
      ),
    );

  return (
    <section>
      <h2>{t("mcp.tools")}</h2>
      {s.held && s.held.length > 0 && (
        <p class="note warn" role="status">
          {t("mcp.held", { names: s.held.map((h) => visible(h.replace(/^tool:/, ""))).join(", ") })}
        </p>
      )}
      {s.unaccepted > 0 && !s.held?.length && <p class="note">{t("mcp.unaccepted", { n: s.unaccepted })}</p>}
      {!trial &&
        !choice &&
        (s.tool_names.length > 0 ? (
          <p class="names">
            {s.tool_names.map((n) => (
              <code key={n}>{visible(n)}</code>
            ))}
          </p>
        ) : (
          <p class="hint">{t("mcp.tools.none")}</p>
        ))}
      {trial && !trial.ok && (
        <div class="note warn" role="alert">
          <p>{visible(trial.error ?? "")}</p>
          {trial.hint && <p>{visible(trial.hint)}</p>}
          {trial.log && <pre class="tail">{visible(trial.log)}</pre>}
        </div>
      )}
      {trial?.ok && (
        <>
          <p role="status">
            <State tone="good">{t("mcp.test.ok", { n: trial.tools.length, s: trial.seconds.toFixed(1) })}</State>
          </p>
          <ul class="things">
            {trial.tools.map((o) => (
              <li key={o.name} class="tool-def">
                <b>
                  <code>{visible(plain(o.name))}</code>
                </b>{" "}
                <span class="hint">{t("mcp.tokens", { n: count(o.tokens) })}</span>
                <p class="task">{visible(o.description ?? "")}</p>
              </li>
            ))}
          </ul>
        </>
      )}
      {choice && (
        <fieldset class="choice column">
          <legend>{t("mcp.choose.about")}</legend>
          {choice.all.map((n) => (
            <label key={n}>
              <input
                type="checkbox"
                checked={choice.on.has(n)}
                onChange={(e) => {
                  const on = new Set(choice.on);
                  if (e.currentTarget.checked) on.add(n);
                  else on.delete(n);
                  setChoice({ ...choice, on });
                }}
              />
              <code>{visible(n)}</code>
            </label>
          ))}
        </fieldset>
      )}
      <div class="row">
        {choice ? (
          <button type="button" class="button primary" disabled={busy} onClick={keep}>
            {t("mcp.choose.save")}
          </button>
        ) : (
          <button type="button" class="button" disabled={busy} onClick={choose}>
            {t("mcp.choose")}
          </button>
        )}
        <button
          type="button"
          class={s.unaccepted > 0 && !trial ? "button primary" : "button"}
          disabled={busy}
          onClick={test}
        >
          {busy ? t("mcp.testing") : s.unaccepted > 0 ? t("mcp.review") : t("mcp.test")}
        </button>
        {trial?.ok && trial.digest && s.unaccepted > 0 && (
          <button type="button" class="button primary" disabled={busy} onClick={accept}>
            {t("mcp.accept")}
          </button>
        )}
      </div>
    </section>
  );
}
