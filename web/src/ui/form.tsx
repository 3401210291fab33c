// Forms made from a JSON Schema. The value is an object of the settings that are
// set; a setting that is not in it has its default.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { t } from "../i18n/form";
import { said, saidName } from "../i18n/said";
import { visible } from "../text/links";
import { Field } from "./field";
import { Icon } from "./icon";
import { hidden, isObject, labelOf, typeOf } from "./schema";
import type { Schema, Values } from "./schema";

export { hidden, labelOf, patchOf, typeOf } from "./schema";
export type { Schema, Values } from "./schema";

interface Common {
  /** wrong is what is wrong with a setting, by its path. */
  wrong?: Record<string, string>;
  /** note is shown beside the hint of a setting. */
  note?(path: string): ComponentChildren;
}

/** Form shows the settings of an object, or only those that are named, in that order. */
export function Form({
  schema,
  value,
  onChange,
  only,
  path = "",
  ...common
}: Common & { schema: Schema; value: Values; onChange(v: Values): void; only?: string[]; path?: string }) {
  const names = only ?? Object.keys(schema.properties ?? {});
  const set = (name: string, v: unknown) => {
    const next = { ...value };
    if (v === undefined) delete next[name];
    else next[name] = v;
    onChange(next);
  };

  return (
    <div class="form">
      {names.map((name) => {
        const s = schema.properties?.[name];
        return (
          s && (
            <Setting
              key={name}
              name={name}
              schema={s}
              value={value[name]}
              path={path ? `${path}.${name}` : name}
              onChange={(v) => set(name, v)}
              {...common}
            />
          )
        );
      })}
    </div>
  );
}

type SettingProps = Common & {
  name: string;
  schema: Schema;
  value: unknown;
  path: string;
  label?: string;
  onChange(v: unknown): void;
};

/** Setting is one setting with its label. */
export function Setting(p: SettingProps) {
  const { schema: s, path, value, onChange } = p;
  const label = p.label ?? saidName(p.name, labelOf(p.name));
  const note = p.note?.(path);
  const hint =
    s.description || note ? (
      <>
        {s.description && visible(said(s.description))} {note}
      </>
    ) : undefined;

  const about = { label, hint, wrong: p.wrong?.[path] };
  const type = typeOf(s);
  const values = s.enum?.filter((v): v is string => typeof v === "string");
  if (values && values.length > 0) {
    return (
      <Field {...about}>
        <select
          class="input"
          value={typeof value === "string" ? value : ""}
          onChange={(e) => onChange(e.currentTarget.value || undefined)}
        >
          <option value="">{unset(s)}</option>
          {values.map((v) => (
            <option key={v} value={v}>
              {v}
            </option>
          ))}
        </select>
      </Field>
    );
  }

  switch (type) {
    case "boolean":
      return <Switch {...about} schema={s} value={value} onChange={onChange} />;
    case "integer":
    case "number":
      return (
        <Field {...about}>
          <input
            class="input"
            type="number"
            min={s.minimum}
            max={s.maximum}
            step={type === "integer" ? 1 : "any"}
            placeholder={s.default === undefined ? undefined : String(s.default)}
            value={typeof value === "number" ? value : ""}
            onInput={(e) => onChange(e.currentTarget.value === "" ? undefined : e.currentTarget.valueAsNumber)}
          />
        </Field>
      );
    case "string":
      return (
        <Field {...about}>
          {s.writeOnly ? (
            <Secret value={value} onChange={onChange} />
          ) : (
            <input
              class="input"
              type="text"
              value={typeof value === "string" ? value : ""}
              placeholder={typeof s.default === "string" ? s.default : undefined}
              onInput={(e) => onChange(e.currentTarget.value || undefined)}
            />
          )}
        </Field>
      );
    case "array":
      if (typeOf(s.items ?? {}) === "string")
        return (
          <Field
            {...about}
            hint={
              <>
                {hint} {t("form.lines")}
              </>
            }
          >
            <Lines value={value} onChange={onChange} />
          </Field>
        );
      break;
    case "object":
      if (s.properties && Object.keys(s.properties).length > 0) {
        return (
          <fieldset class="nested">
            <legend>{label}</legend>
            {hint && <small class="hint">{hint}</small>}
            {about.wrong && (
              <small class="wrong" role="alert">
                {about.wrong}
              </small>
            )}
            <Form
              schema={s}
              value={isObject(value) ? value : {}}
              path={path}
              wrong={p.wrong}
              note={p.note}
              onChange={(v) => onChange(Object.keys(v).length > 0 ? v : undefined)}
            />
          </fieldset>
        );
      }
      if (isObject(s.additionalProperties))
        return <Entries {...p} label={label} each={s.additionalProperties as Schema} hint={hint} />;
  }

  return <Json {...about} value={value} onChange={onChange} />;
}

const unset = (s: Schema) =>
  s.default === undefined || s.default === "" ? t("form.unset") : t("form.default", { value: String(s.default) });

/** Switch is a checkbox; a setting without a default may also be left open. */
function Switch({
  label,
  hint,
  wrong,
  schema,
  value,
  onChange,
}: {
  label: string;
  hint: ComponentChildren;
  wrong?: string;
  schema: Schema;
  value: unknown;
  onChange(v: unknown): void;
}) {
  if (schema.default === undefined) {
    return (
      <Field label={label} hint={hint} wrong={wrong}>
        <select
          class="input"
          value={typeof value === "boolean" ? String(value) : ""}
          onChange={(e) => onChange(e.currentTarget.value === "" ? undefined : e.currentTarget.value === "true")}
        >
          <option value="">{t("form.unset")}</option>
          <option value="true">{t("form.on")}</option>
          <option value="false">{t("form.off")}</option>
        </select>
      </Field>
    );
  }
  return (
    <label class="field switch">
      <input
        type="checkbox"
        checked={typeof value === "boolean" ? value : schema.default === true}
        onChange={(e) => onChange(e.currentTarget.checked === schema.default ? undefined : e.currentTarget.checked)}
      />
      <span>{label}</span>
      {hint && <small class="hint">{hint}</small>}
      {wrong && (
        <small class="wrong" role="alert">
          {wrong}
        </small>
      )}
    </label>
  );
}

/** Secret never shows what is stored; an empty field keeps it. */
export function Secret({ value, onChange }: { value: unknown; onChange(v: unknown): void }) {
  const [stored] = useState(value === hidden);
  return (
    <input
      class="input"
      type="password"
      autocomplete="off"
      spellcheck={false}
      value={value === hidden || typeof value !== "string" ? "" : value}
      placeholder={stored ? t("form.secret.kept") : undefined}
      onInput={(e) => onChange(e.currentTarget.value || (stored ? hidden : undefined))}
    />
  );
}

/** Lines is a list of texts, one per line. */
function Lines({ value, onChange }: { value: unknown; onChange(v: unknown): void }) {
  const list = Array.isArray(value) ? value.map(String) : [];
  const [start] = useState(list.join("\n"));
  const changed = (text: string) => {
    const lines = text
      .split("\n")
      .map((l) => l.trim())
      .filter(Boolean);
    onChange(lines.length > 0 ? lines : undefined);
  };

  return (
    <textarea
      class="input"
      rows={Math.min(8, Math.max(2, list.length + 1))}
      defaultValue={start}
      spellcheck={false}
      onInput={(e) => changed(e.currentTarget.value)}
    />
  );
}

/** Entries is a map: names with values of one kind. */
function Entries({
  label,
  hint,
  each,
  value,
  path,
  onChange,
  ...common
}: SettingProps & { label: string; hint: ComponentChildren; each: Schema }) {
  const map = isObject(value) ? value : {};
  const [name, setName] = useState("");
  const set = (key: string, v: unknown) => {
    const next = { ...map, [key]: v };
    if (v === undefined) delete next[key];
    onChange(Object.keys(next).length > 0 ? next : undefined);
  };

  const empty = () =>
    typeOf(each) === "object" ? {} : typeOf(each) === "array" ? [] : typeOf(each) === "boolean" ? false : "";
  const add = () => {
    const key = name.trim();
    if (key && !(key in map)) set(key, empty());
    setName("");
  };

  return (
    <fieldset class="nested">
      <legend>{label}</legend>
      {hint && <small class="hint">{hint}</small>}
      {Object.keys(map).map((key) => (
        <div key={key} class="entry">
          <Setting
            name={key}
            label={visible(key)}
            schema={each}
            value={map[key]}
            path={`${path}.${key}`}
            onChange={(v) => set(key, v ?? empty())}
            wrong={common.wrong}
            note={common.note}
          />
          <button
            type="button"
            class="button plain square"
            aria-label={t("form.remove", { name: visible(key) })}
            onClick={() => set(key, undefined)}
          >
            <Icon name="bin" />
          </button>
        </div>
      ))}
      <div class="entry">
        <input
          class="input"
          aria-label={t("form.name")}
          placeholder={t("form.name")}
          value={name}
          onInput={(e) => setName(e.currentTarget.value)}
          onKeyDown={(e) => e.key === "Enter" && (e.preventDefault(), add())}
        />
        <button type="button" class="button" onClick={add}>
          {t("form.add")}
        </button>
      </div>
    </fieldset>
  );
}

/** Json is a value that has no control of its own. */
function Json({
  label,
  hint,
  wrong,
  value,
  onChange,
}: {
  label: string;
  hint: ComponentChildren;
  wrong?: string;
  value: unknown;
  onChange(v: unknown): void;
}) {
  const [start] = useState(value === undefined ? "" : JSON.stringify(value, undefined, 2));
  const [bad, setBad] = useState(false);
  const changed = (text: string) => {
    try {
      onChange(text.trim() === "" ? undefined : JSON.parse(text));
      setBad(false);
    } catch {
      setBad(true);
    }
  };

  return (
    <Field
      label={label}
      hint={
        <>
          {hint} {t("form.json")}
        </>
      }
      wrong={bad ? t("form.json.wrong") : wrong}
    >
      <textarea
        class="input code"
        rows={4}
        defaultValue={start}
        spellcheck={false}
        onInput={(e) => changed(e.currentTarget.value)}
      />
    </Field>
  );
}
