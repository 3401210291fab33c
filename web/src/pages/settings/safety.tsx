// What the agent may do without asking.
import { useState } from "preact/hooks";
import { t as common, failureText } from "../../i18n";
import { t } from "../../i18n/settings";
import { request } from "../../state/store";
import { visible } from "../../text/links";
import { Dialog } from "../../ui/dialog";
import { Field } from "../../ui/field";
import type { Explained, SettingsRead } from "../../wire/reads";
import { failureOf, SaveBar, Section } from "./section";
import { draft, drafts, forget, valueAt } from "./state";
import type { Setting } from "./state";

export const safetyPaths = [
  "tools.approval.mode",
  "tools.approval.timeout",
  "tools.approval.fallback",
  "tools.exec.enable",
  "tools.exec.sandbox",
  "tools.exec.network",
  "tools.exec.allowedHosts",
  "tools.restrictToWorkspace",
  "tools.protectConfigDir",
  "tools.ssrfWhitelist",
];
const rulesPath = "tools.approval.rules";

interface Rule {
  tool: string;
  match: string;
  action: string;
}

export function Safety({ read, settings, onSaved }: { read: SettingsRead; settings: Setting[]; onSaved(): void }) {
  return (
    <>
      <Section title={t("settings.safety.title")} settings={settings} read={read} onSaved={onSaved} />
      <Rules read={read} onSaved={onSaved} />
    </>
  );
}

function Rules({ read, onSaved }: { read: SettingsRead; onSaved(): void }) {
  const [testing, setTesting] = useState(false);
  const saved = (valueAt(read.config, rulesPath.split(".")) ?? []) as Rule[];
  const rules = ((drafts.value.has(rulesPath) ? drafts.value.get(rulesPath) : saved) ?? []) as Rule[];
  const put = (next: Rule[]) =>
    JSON.stringify(next) === JSON.stringify(saved) ? forget([rulesPath]) : draft(rulesPath, next, read.base);
  const change = (i: number, part: Partial<Rule>) => put(rules.map((r, j) => (j === i ? { ...r, ...part } : r)));

  return (
    <section>
      <h2>{t("settings.rules")}</h2>
      <p class="hint">{t("settings.rules.about")}</p>
      {rules.length === 0 && <p class="hint">{t("settings.rules.none")}</p>}
      <ol class="rules">
        {rules.map((r, i) => (
          <li key={i}>
            <input
              class="input"
              aria-label={t("settings.rule.tool", { n: i + 1 })}
              placeholder={t("settings.sample.tool")}
              value={r.tool}
              onInput={(e) => change(i, { tool: e.currentTarget.value })}
            />
            <input
              class="input"
              aria-label={t("settings.rule.match", { n: i + 1 })}
              placeholder={t("settings.sample.match")}
              value={r.match ?? ""}
              onInput={(e) => change(i, { match: e.currentTarget.value })}
            />
            <select
              class="input"
              aria-label={t("settings.rule.action", { n: i + 1 })}
              value={r.action}
              onChange={(e) => change(i, { action: e.currentTarget.value })}
            >
              {(["allow", "ask", "deny"] as const).map((a) => (
                <option key={a} value={a}>
                  {t(`value.rule.${a}`)}
                </option>
              ))}
            </select>
            <button
              type="button"
              class="button"
              aria-label={t("settings.rule.remove", { n: i + 1 })}
              onClick={() => put(rules.filter((_, j) => j !== i))}
            >
              {t("settings.delete")}
            </button>
          </li>
        ))}
      </ol>
      <div class="row">
        <button
          type="button"
          class="button"
          onClick={() => put([...rules, { tool: "exec", match: "", action: "ask" }])}
        >
          {t("settings.rule.add")}
        </button>
        <button type="button" class="button" onClick={() => setTesting(true)}>
          {t("settings.rule.test")}
        </button>
      </div>
      <SaveBar paths={[rulesPath]} onSaved={onSaved} />
      {testing && <TestCall onClose={() => setTesting(false)} />}
    </section>
  );
}

/** TestCall asks what would happen to a call with the saved settings. */
function TestCall({ onClose }: { onClose(): void }) {
  const [tool, setTool] = useState("exec");
  const [text, setText] = useState('{"command": "git push"}');
  const [result, setResult] = useState("");
  const ask = (e: Event) => {
    e.preventDefault();
    let args: unknown;
    try {
      args = JSON.parse(text);
    } catch {
      return setResult(t("settings.json.wrong"));
    }

    request<Explained>("approval.explain", { tool, arguments: args }).then(
      (r) =>
        setResult(
          [
            t(`value.result.${r.action}`),
            r.reason && t("settings.test.reason", { reason: r.reason }),
            r.rule && t("settings.test.rule", { rule: r.rule }),
          ]
            .filter(Boolean)
            .join("\n"),
        ),
      (e) => setResult(failureText(failureOf(e))),
    );
  };

  return (
    <Dialog title={t("settings.rule.test")} onClose={onClose}>
      <form onSubmit={ask}>
        <Field label={t("settings.test.tool")}>
          <input class="input" required value={tool} onInput={(e) => setTool(e.currentTarget.value)} />
        </Field>
        <Field label={t("settings.test.arguments")}>
          <textarea class="input code" rows={3} value={text} onInput={(e) => setText(e.currentTarget.value)} />
        </Field>
        <pre class="test-result" role="status">
          {visible(result)}
        </pre>
        <div class="row">
          <button type="button" class="button" onClick={onClose}>
            {common("dialog.cancel")}
          </button>
          <button type="submit" class="button primary">
            {t("settings.test.run")}
          </button>
        </div>
      </form>
    </Dialog>
  );
}
