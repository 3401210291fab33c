// Writing a skill, and installing one.
import { useEffect, useState } from "preact/hooks";
import { t as common } from "../../i18n";
import { t } from "../../i18n/skills";
import { go } from "../../state/route";
import { request } from "../../state/store";
import { fail, toast } from "../../state/toast";
import { label, visible } from "../../text/links";
import { Field } from "../../ui/field";
import { State } from "../../ui/list";
import type { Skill, SkillChecked, SkillInstalled, SkillProblem } from "../../wire/reads";
import { act } from "./wire";

const blank = (name: string) =>
  `---\nname: ${name || "my-skill"}\ndescription: ${t("skill.blank.description")}\n---\n# ${name || "my-skill"}\n\n${t("skill.blank.text")}\n`;

function Problems({ list }: { list: SkillProblem[] }) {
  if (list.length === 0)
    return (
      <p role="status">
        <State tone="good">{t("skill.fine")}</State>
      </p>
    );
  return (
    <ul class="checks" aria-label={t("skill.problems")}>
      {list.map((p) => (
        <li key={`${p.line} ${p.text}`}>
          <State tone={p.error ? "bad" : "warn"}>{p.line ? t("skill.line", { n: p.line }) : visible(p.file)}</State>{" "}
          {visible(p.text)}
        </li>
      ))}
    </ul>
  );
}

export function Edit({ of }: { of?: Skill }) {
  const [name, setName] = useState(of?.name ?? "");
  const [text, setText] = useState(of?.file ?? blank(""));
  const [problems, setProblems] = useState<SkillProblem[]>();
  const own = of?.source === "workspace";
  useEffect(() => {
    if (!name) return;
    let left = false;
    const timer = setTimeout(
      () =>
        request<SkillChecked>("skill.check", { name, text }).then(
          (x) => left || setProblems(x.problems),
          () => left || setProblems(undefined),
        ),
      400,
    );

    return () => {
      left = true;
      clearTimeout(timer);
    };
  }, [name, text]);

  const rename = (next: string) => {
    if (text === blank(name)) setText(blank(next));
    setName(next);
  };

  const save = (e: Event) => {
    e.preventDefault();
    act("write", {
      name,
      text,
      version: own ? of.version : undefined,
      force: of?.source === "builtin" || undefined,
    }).then(() => {
      toast(t("skill.saved"));
      go("#/skills/" + encodeURIComponent(name));
    }, fail);
  };

  return (
    <section>
      <h2>{of ? t("skill.edit.title", { name: label(of.name) }) : t("skill.new")}</h2>
      {of?.source === "builtin" && <p class="note">{t("skill.own.about")}</p>}
      <form class="form" onSubmit={save}>
        {!of && (
          <Field label={t("skill.name")} hint={t("skill.name.hint")}>
            <input
              class="input"
              required
              maxLength={64}
              pattern="[a-z0-9]+(-[a-z0-9]+)*"
              value={name}
              onInput={(e) => rename(e.currentTarget.value)}
            />
          </Field>
        )}
        <Field label={t("skill.file")}>
          <textarea
            class="input code"
            rows={22}
            required
            spellcheck={false}
            value={text}
            onInput={(e) => setText(e.currentTarget.value)}
          />
        </Field>
        {problems && <Problems list={problems} />}
        <div class="row">
          <button type="submit" class="button primary" disabled={problems?.some((p) => p.error)}>
            {common("dialog.save")}
          </button>
          <a class="button" href={of ? "#/skills/" + encodeURIComponent(of.name) : "#/skills"}>
            {common("dialog.cancel")}
          </a>
        </div>
      </form>
    </section>
  );
}

const dataURL = (file: File) =>
  new Promise<string>((done, refuse) => {
    const r = new FileReader();
    r.onload = () => done(`data:application/octet-stream;base64,${String(r.result).replace(/^[^,]*,/, "")}`);
    r.onerror = () => refuse(r.error);
    r.readAsDataURL(file);
  });

export function Install() {
  const [file, setFile] = useState<File>();
  const [path, setPath] = useState("");
  const [always, setAlways] = useState(false);
  const [force, setForce] = useState(false);
  const install = async (e: Event) => {
    e.preventDefault();
    try {
      const source = file ? { data_url: await dataURL(file), name: file.name } : { path };
      const done = await act<SkillInstalled>("install", {
        ...source,
        always: always || undefined,
        force: force || undefined,
      });
      toast(t("skill.installed.done", { name: label(done.name) }));
      go("#/skills/" + encodeURIComponent(done.name));
    } catch (e) {
      fail(e);
    }
  };

  return (
    <section>
      <h2>{t("skill.install")}</h2>
      <p class="note warn">{t("skill.install.about")}</p>
      <form class="form" onSubmit={(e) => void install(e)}>
        <Field label={t("skill.upload")} hint={t("skill.upload.hint")}>
          <input
            class="input"
            type="file"
            accept=".skill,.zip,.tgz,.gz"
            onChange={(e) => setFile(e.currentTarget.files?.[0])}
          />
        </Field>
        <Field label={t("skill.frompath")} hint={t("skill.frompath.hint")}>
          <input class="input" disabled={!!file} value={path} onInput={(e) => setPath(e.currentTarget.value)} />
        </Field>
        <label class="field switch">
          <input type="checkbox" checked={always} onChange={(e) => setAlways(e.currentTarget.checked)} />
          <span>{t("skill.install.always")}</span>
        </label>
        <label class="field switch">
          <input type="checkbox" checked={force} onChange={(e) => setForce(e.currentTarget.checked)} />
          <span>{t("skill.install.force")}</span>
        </label>
        <div class="row">
          <button type="submit" class="button primary" disabled={!file && !path}>
            {t("skill.install")}
          </button>
          <a class="button" href="#/skills">
            {common("dialog.cancel")}
          </a>
        </div>
      </form>
    </section>
  );
}
