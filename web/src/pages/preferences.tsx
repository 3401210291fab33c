// Preferences of this device.
import { fullDate, look, setLook, t } from "../i18n";
import type { Key } from "../i18n";
import { gateway, signOut } from "../state/store";
import { fail } from "../state/toast";
import { visible } from "../text/links";
import { Bar } from "./bar";

function Choice<V extends string>({
  label,
  name,
  value,
  options,
  onChange,
}: {
  label: string;
  name: string;
  value: V;
  options: [V, Key][];
  onChange(v: V): void;
}) {
  return (
    <fieldset class="choice">
      <legend>{label}</legend>
      {options.map(([v, text]) => (
        <label key={v}>
          <input type="radio" name={name} checked={v === value} onChange={() => onChange(v)} />
          {t(text)}
        </label>
      ))}
    </fieldset>
  );
}

export default function Preferences() {
  const l = look.value;
  const device = gateway.value?.device;
  return (
    <>
      <Bar title={t("page.preferences")} />
      <div class="page">
        <div class="inner">
          <section>
            <h2>{t("prefs.look")}</h2>
            <Choice
              label={t("prefs.theme")}
              name="theme"
              value={l.theme}
              options={[
                ["system", "prefs.theme.system"],
                ["light", "prefs.theme.light"],
                ["dark", "prefs.theme.dark"],
              ]}
              onChange={(theme) => setLook({ theme })}
            />
            <Choice
              label={t("prefs.language")}
              name="language"
              value={l.language}
              options={[
                ["system", "prefs.language.system"],
                ["en", "prefs.language.en"],
                ["zh", "prefs.language.zh"],
              ]}
              onChange={(language) => setLook({ language })}
            />
          </section>
          <section>
            <h2>{t("prefs.keys")}</h2>
            <Choice
              label={t("prefs.enter")}
              name="enter"
              value={l.enter}
              options={[
                ["send", "prefs.enter.send"],
                ["break", "prefs.enter.break"],
              ]}
              onChange={(enter) => setLook({ enter })}
            />
            <div class="choice">
              <label>
                <input
                  type="checkbox"
                  checked={l.letters}
                  onChange={(e) => setLook({ letters: e.currentTarget.checked })}
                />
                {t("prefs.letters")}
              </label>
            </div>
          </section>
          {device && (
            <section>
              <h2>{t("prefs.device")}</h2>
              <dl class="facts">
                <dt>{t("prefs.device.name")}</dt>
                <dd>{visible(device.name)}</dd>
                <dt>{t("prefs.device.address")}</dt>
                <dd>{visible(device.address)}</dd>
                <dt>{t("prefs.device.created")}</dt>
                <dd>{fullDate(device.created)}</dd>
                <dt>{t("prefs.device.expires")}</dt>
                <dd>{fullDate(device.expires)}</dd>
              </dl>
            </section>
          )}
          <div>
            <button type="button" class="button danger" onClick={() => void signOut().catch(fail)}>
              {t("prefs.signout")}
            </button>
          </div>
        </div>
      </div>
    </>
  );
}
