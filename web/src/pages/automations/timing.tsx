// When a job runs: a form for each kind of schedule, and what it means.
import { useEffect, useState } from "preact/hooks";
import { failureText, fullDate } from "../../i18n";
import { t } from "../../i18n/automations";
import { dayName } from "../../ui/days";
import { request } from "../../state/store";
import { visible } from "../../text/links";
import { Refused } from "../../wire/api";
import type { Failure } from "../../wire/types";
import { Field } from "../../ui/field";
import type { Foreseen, Timing } from "../../wire/reads";
import { cronOf, localTime, weekly } from "./cron";

const units = { minutes: 60, hours: 3600, days: 86400 } as const;
type Unit = keyof typeof units;
const kinds = ["weekly", "every", "at", "cron"] as const;
type Kind = (typeof kinds)[number];

interface Draft {
  kind: Kind;
  count: number;
  unit: Unit;
  time: string;
  days: number[];
  at: string;
  cron: string;
  tz: string;
}

export const ownZone = () => Intl.DateTimeFormat().resolvedOptions().timeZone;

function draftOf(s?: Timing): Draft {
  const d: Draft = {
    kind: "weekly",
    count: 1,
    unit: "hours",
    time: "09:00",
    days: [],
    at: localTime(new Date(Date.now() + 3_600_000)),
    cron: "0 9 * * 1-5",
    tz: s?.tz ?? ownZone(),
  };

  if (s?.every_seconds) {
    const unit = (["days", "hours", "minutes"] as const).find((u) => s.every_seconds! % units[u] === 0) ?? "minutes";
    return { ...d, kind: "every", unit, count: s.every_seconds / units[unit] };
  }
  if (s?.at) return { ...d, kind: "at", at: localTime(new Date(s.at)) };
  if (s?.cron) {
    const simple = weekly(s.cron);
    return simple ? { ...d, ...simple, cron: s.cron } : { ...d, kind: "cron", cron: s.cron };
  }
  return d;
}

function timingOf(d: Draft): Timing {
  switch (d.kind) {
    case "every":
      return { every_seconds: d.count * units[d.unit] };
    case "at":
      return { at: Number.isNaN(Date.parse(d.at)) ? d.at : new Date(d.at).toISOString() };
    case "cron":
      return { cron: d.cron, tz: d.tz };
    case "weekly":
      return { cron: cronOf(d.time, d.days), tz: d.tz };
  }
}

export function TimingFields({ start, onChange }: { start?: Timing; onChange(t: Timing): void }) {
  const [d, setDraft] = useState(() => draftOf(start));
  const set = (change: Partial<Draft>) => {
    const next = { ...d, ...change };
    setDraft(next);
    onChange(timingOf(next));
  };

  useEffect(() => onChange(timingOf(d)), []);
  const zone = (
    <Field label={t("auto.zone")}>
      <input class="input" value={d.tz} onInput={(e) => set({ tz: e.currentTarget.value })} />
    </Field>
  );

  return (
    <>
      <fieldset class="choice">
        <legend>{t("auto.kind")}</legend>
        {kinds.map((k) => (
          <label key={k}>
            <input type="radio" name="kind" checked={d.kind === k} onChange={() => set({ kind: k })} />
            {t(`value.timing.${k}`)}
          </label>
        ))}
      </fieldset>
      {d.kind === "every" && (
        <div class="pair">
          <Field label={t("auto.count")}>
            <input
              class="input"
              type="number"
              min={1}
              required
              value={d.count}
              onInput={(e) => set({ count: e.currentTarget.valueAsNumber || 0 })}
            />
          </Field>
          <Field label={t("auto.unit")}>
            <select class="input" value={d.unit} onChange={(e) => set({ unit: e.currentTarget.value as Unit })}>
              {(Object.keys(units) as Unit[]).map((u) => (
                <option key={u} value={u}>
                  {t(`value.unit.${u}`)}
                </option>
              ))}
            </select>
          </Field>
        </div>
      )}
      {d.kind === "weekly" && (
        <>
          <fieldset class="choice days">
            <legend>{t("auto.days")}</legend>
            {[1, 2, 3, 4, 5, 6, 0].map((n) => (
              <label key={n}>
                <input
                  type="checkbox"
                  checked={d.days.includes(n)}
                  onChange={(e) =>
                    set({ days: e.currentTarget.checked ? [...d.days, n] : d.days.filter((x) => x !== n) })
                  }
                />
                {dayName(n)}
              </label>
            ))}
          </fieldset>
          <div class="pair">
            <Field label={t("auto.time")}>
              <input
                class="input"
                type="time"
                required
                value={d.time}
                onInput={(e) => set({ time: e.currentTarget.value })}
              />
            </Field>
            {zone}
          </div>
        </>
      )}
      {d.kind === "at" && (
        <Field label={t("auto.at")}>
          <input
            class="input"
            type="datetime-local"
            required
            value={d.at}
            onInput={(e) => set({ at: e.currentTarget.value })}
          />
        </Field>
      )}
      {d.kind === "cron" && (
        <div class="pair">
          <Field label={t("auto.cron")} hint={t("auto.cron.hint")}>
            <input
              class="input code"
              required
              value={d.cron}
              spellcheck={false}
              onInput={(e) => set({ cron: e.currentTarget.value })}
            />
          </Field>
          {zone}
        </div>
      )}
    </>
  );
}

/** wordsOf says when a job runs; cron expressions of the harder kind stay as they are. */
export function wordsOf({ schedule: s, when = "" }: { schedule?: Timing; when?: string }): string {
  if (s?.every_seconds) {
    const d = draftOf(s);
    return t("auto.words.every", { n: d.count, unit: t(`value.unit.${d.unit}`) });
  }
  if (s?.at) return t("auto.words.at", { at: fullDate(s.at) });
  const simple = s?.cron ? weekly(s.cron) : undefined;
  if (!simple) return visible(when);
  const zone = visible(s?.tz ?? "");
  if (simple.days.length === 0) return t("auto.words.daily", { time: simple.time, zone }).trim();
  return t("auto.words.days", { days: simple.days.map(dayName).join(", "), time: simple.time, zone }).trim();
}

/** Preview says what a schedule means, a moment after it was changed. */
export function Preview({ timing }: { timing: Timing }) {
  const [seen, setSeen] = useState<{ data?: Foreseen; failure?: Failure }>({});
  useEffect(() => {
    let left = false;
    const timer = setTimeout(() => {
      request<Foreseen>("automation.preview", { schedule: timing }).then(
        (data) => left || setSeen({ data }),
        (e: unknown) => left || setSeen({ failure: e instanceof Refused ? e.failure : (e as Failure) }),
      );
    }, 250);

    return () => {
      left = true;
      clearTimeout(timer);
    };
  }, [JSON.stringify(timing)]);

  const { data, failure } = seen;

  return (
    <div class="note preview" role="status">
      {failure && <p class="wrong">{failureText(failure)}</p>}
      {data && (
        <>
          <p>
            <b>{wordsOf({ schedule: timing, when: data.when })}</b>
          </p>
          <ol>
            {data.next_runs.map((at) => (
              <li key={at}>{fullDate(at)}</li>
            ))}
          </ol>
          {data.cost && <p>{t("auto.cost", { cost: visible(data.cost) })}</p>}
        </>
      )}
    </div>
  );
}
