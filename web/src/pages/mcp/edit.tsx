// Adding, changing and importing MCP servers.
import { useState } from "preact/hooks";
import { t as common } from "../../i18n";
import { t } from "../../i18n/mcp";
import { go } from "../../state/route";
import { fail, toast } from "../../state/toast";
import { visible } from "../../text/links";
import { Field } from "../../ui/field";
import { Form } from "../../ui/form";
import type { Values } from "../../ui/form";
import type { Server, ServerSaved, Taken } from "../../wire/reads";
import { act, hrefOf, schemaOf } from "./wire";

export function Edit({ of }: { of?: Server }) {
  const [name, setName] = useState(of?.name ?? "");
  const [kind, setKind] = useState<"program" | "address">(of?.settings?.["url"] ? "address" : "program");
  const [value, setValue] = useState<Values>(of?.settings ?? {});
  const schema = schemaOf(kind);
  const save = (e: Event) => {
    e.preventDefault();
    const other = schemaOf(kind === "program" ? "address" : "program").properties ?? {};
    const settings = Object.fromEntries(
      Object.entries(value).filter(([n]) => n in schema.properties! || !(n in other)),
    );
    act<ServerSaved>("custom", { name, settings, replace: of !== undefined }).then((done) => {
      toast(done.warnings.length ? visible(done.warnings.join(" ")) : t("mcp.saved"));
      go(hrefOf(name));
    }, fail);
  };

  const main = kind === "program" ? ["command", "args", "env"] : ["url", "headers", "auth"];

  return (
    <section>
      <h2>{of ? t("mcp.edit", { name: of.name }) : t("mcp.add")}</h2>
      <form class="form" onSubmit={save}>
        {!of && (
          <Field label={t("mcp.name")} hint={t("mcp.name.hint")}>
            <input
              class="input"
              required
              pattern="[A-Za-z0-9_\-]{1,40}"
              value={name}
              onInput={(e) => setName(e.currentTarget.value)}
            />
          </Field>
        )}
        <fieldset class="choice">
          <legend>{t("mcp.kind")}</legend>
          {(["program", "address"] as const).map((k) => (
            <label key={k}>
              <input type="radio" name="kind" checked={kind === k} onChange={() => setKind(k)} />
              {t(`value.mcpkind.${k}`)}
            </label>
          ))}
        </fieldset>
        {kind === "program" && <p class="hint">{t("mcp.kind.warn")}</p>}
        <Form key={kind} schema={schema} value={value} onChange={setValue} only={main} />
        <details>
          <summary>{t("mcp.more")}</summary>
          <Form
            schema={schema}
            value={value}
            onChange={setValue}
            only={Object.keys(schema.properties!).filter((n) => !main.includes(n))}
          />
        </details>
        <div class="row">
          <button type="submit" class="button primary">
            {common("dialog.save")}
          </button>
          <a class="button" href={of ? hrefOf(of.name) : "#/mcp"}>
            {common("dialog.cancel")}
          </a>
        </div>
      </form>
    </section>
  );
}

/** Import takes the block that the documentation of a server shows, or a link. */
export function Import() {
  const [text, setText] = useState("");
  const [wrong, setWrong] = useState("");
  const [taken, setTaken] = useState<Taken>();
  const submit = (e: Event) => {
    e.preventDefault();
    setWrong("");
    const done = (what: Promise<Taken>) => void what.then(setTaken, fail);
    if (/^\w+:\/\//.test(text.trim())) return done(act("import_cursor", { link: text.trim() }));
    try {
      const block = JSON.parse(text) as Values;
      const servers =
        block["mcpServers"] ?? block["servers"] ?? (block["command"] || block["url"] ? { server: block } : block);
      done(act("import", { mcpServers: servers }));
    } catch {
      setWrong(t("mcp.import.wrong"));
    }
  };

  return (
    <section>
      <h2>{t("mcp.import")}</h2>
      <form class="form" onSubmit={submit}>
        <Field label={t("mcp.import.label")} hint={t("mcp.import.hint")} wrong={wrong}>
          <textarea
            class="input code"
            rows={10}
            required
            spellcheck={false}
            value={text}
            onInput={(e) => setText(e.currentTarget.value)}
          />
        </Field>
        {taken && (
          <div class="note" role="status">
            {taken.imported.length > 0 && (
              <p>
                {t("mcp.imported")}{" "}
                {taken.imported.map((n) => (
                  <a key={n} href={hrefOf(n)}>
                    {visible(n)}{" "}
                  </a>
                ))}
              </p>
            )}
            {taken.skipped.map((s) => (
              <p key={s.name}>{t("mcp.skipped", { name: visible(s.name), reason: visible(s.reason) })}</p>
            ))}
          </div>
        )}
        <div class="row">
          <button type="submit" class="button primary">
            {t("mcp.import")}
          </button>
          <a class="button" href="#/mcp">
            {taken ? t("mcp.back") : common("dialog.cancel")}
          </a>
        </div>
      </form>
    </section>
  );
}
