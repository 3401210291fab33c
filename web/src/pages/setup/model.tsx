// The second step: a model, with what it costs and how much it can read.
import { useState } from "preact/hooks";
import { count } from "../../i18n";
import { t } from "../../i18n/setup";
import { visible } from "../../text/links";
import { Field } from "../../ui/field";
import type { Offer } from "../../wire/reads";

const most = 50; // that are shown at a time

const amount = (usd: number) => "$" + String(Math.round(usd * 1000) / 1000);

function costs(o: Offer): string {
  if (o.billing === "free") return t("setup.free");
  if (o.billing === "subscription") return t("setup.subscription");
  if (o.billing !== "priced") return t("setup.unpriced");
  if (!o.in_usd && !o.out_usd) return t("setup.free");
  return t("setup.price", { in: amount(o.in_usd ?? 0), out: amount(o.out_usd ?? 0) });
}

export function ModelStep({ models, value, onChange }: { models: Offer[]; value: string; onChange(id: string): void }) {
  const [query, setQuery] = useState("");
  if (models.length === 0) {
    return (
      <Field label={t("setup.model.name")} hint={t("setup.model.nolist")}>
        <input class="input" required value={value} onInput={(e) => onChange(e.currentTarget.value)} />
      </Field>
    );
  }

  const fits = models.filter((m) => m.id.toLowerCase().includes(query.toLowerCase()));
  const shown = fits.slice(0, most);
  if (value && !shown.some((m) => m.id === value)) shown.unshift(models.find((m) => m.id === value) ?? { id: value });

  return (
    <>
      {models.length > 8 && (
        <Field label={t("setup.model.search")} hint={t("setup.model.found", { n: fits.length })}>
          <input class="input" type="search" value={query} onInput={(e) => setQuery(e.currentTarget.value)} />
        </Field>
      )}
      <fieldset class="picks">
        <legend class="sr">{t("setup.step.model")}</legend>
        {shown.map((m) => (
          <label key={m.id} class="pick">
            <input type="radio" name="model" checked={m.id === value} onChange={() => onChange(m.id)} />
            <span class="name">{visible(m.id)}</span>
            <span class="facts-of">
              {m.context_window ? t("setup.window", { n: count(m.context_window) }) : ""} {costs(m)}
            </span>
          </label>
        ))}
      </fieldset>
      {fits.length > most && <p class="hint">{t("setup.model.more")}</p>}
    </>
  );
}
