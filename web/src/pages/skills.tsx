// Skills: what there is, where each comes from, and their texts.
import { useState } from "preact/hooks";
import { fullDate, t as common } from "../i18n";
import { t } from "../i18n/skills";
import { useRead } from "../state/read";
import { go } from "../state/route";
import { fail, toast } from "../state/toast";
import { label, safeHref, visible } from "../text/links";
import { Growing } from "../ui/grow";
import { Icon } from "../ui/icon";
import { Confirm, Row, State } from "../ui/list";
import { Read } from "../ui/read";
import type { Skill, SkillList } from "../wire/reads";
import { Bar } from "./bar";
import { Edit, Install } from "./skills/edit";
import { act } from "./skills/wire";
import type { PageProps } from "./table";

export default function Skills({ rest: [part = "", verb] }: PageProps) {
  const list = useRead<SkillList>(part ? undefined : "webui/skills", {}, "settings");
  return (
    <>
      <Bar title={common("page.skills")} />
      <div class="page">
        <div class="inner">
          {!part && <Read of={list}>{({ skills }) => <List all={skills} />}</Read>}
          {part === "+new" && <Edit />}
          {part === "+install" && <Install />}
          {part && !part.startsWith("+") && <One key={part} name={part} edit={verb === "edit"} />}
        </div>
      </div>
    </>
  );
}

function StateOf({ s }: { s: Skill }) {
  if (s.disabled) return <State tone="off">{t("skill.off")}</State>;
  if (s.changed) return <State tone="warn">{t("skill.changed")}</State>;
  if (!s.available) return <State tone="warn">{t("skill.missing", { what: visible(s.missing ?? "") })}</State>;
  return <State tone="good">{s.always ? t("skill.always") : t("skill.ready")}</State>;
}

const hrefOf = (name: string) => "#/skills/" + encodeURIComponent(name);
const sources = ["workspace", "installed", "builtin"] as const;

function List({ all }: { all: Skill[] }) {
  const enable = (s: Skill) => void act("enable", { name: s.name }).catch(fail);
  const groups = [
    ...sources.map(
      (source) => [t(`value.skill.${source}`), all.filter((s) => s.source === source && !s.disabled)] as const,
    ),
    [t("skill.disabled"), all.filter((s) => s.disabled)] as const,
  ];

  return (
    <>
      <div class="spread">
        <p class="hint">{t("skill.about")}</p>
        <div class="row">
          <a class="button" href="#/skills/+install">
            {t("skill.install")}
          </a>
          <a class="button primary" href="#/skills/+new">
            <Icon name="plus" />
            {t("skill.new")}
          </a>
        </div>
      </div>
      {!all.some((s) => s.source !== "builtin") && <p class="note">{t("skill.none")}</p>}
      {groups.map(
        ([title, of]) =>
          of.length > 0 && (
            <section key={title}>
              <h2>{title}</h2>
              <ul class="things">
                <Growing rows={of}>
                  {(s) => (
                    <Row
                      key={s.name}
                      href={s.disabled ? undefined : hrefOf(s.name)}
                      title={label(s.name)}
                      state={<StateOf s={s} />}
                      about={visible(s.description)}
                    >
                      {s.disabled && (
                        <button type="button" class="button" onClick={() => enable(s)}>
                          {t("skill.enable")}
                        </button>
                      )}
                    </Row>
                  )}
                </Growing>
              </ul>
            </section>
          ),
      )}
    </>
  );
}

function One({ name, edit }: { name: string; edit: boolean }) {
  const skill = useRead<Skill>(`webui/skills/${encodeURIComponent(name)}`, {}, "settings");
  const [asking, setAsking] = useState(false);
  const leave = (said: string) => {
    toast(said);
    go("#/skills");
  };

  const disable = () => void act("disable", { name }).then(() => leave(t("skill.disabled.done")), fail);
  const remove = () => void act("delete", { name, force: true }).then(() => leave(t("skill.deleted")), fail);

  return (
    <Read of={skill}>
      {(s) =>
        edit && s.source !== "installed" ? (
          <Edit key={s.version} of={s} />
        ) : (
          <>
            <section>
              <a class="hint" href="#/skills">
                {t("skill.back")}
              </a>
              <div class="spread">
                <h2>{label(s.name)}</h2>
                <StateOf s={s} />
              </div>
              <p>{visible(s.description)}</p>
              <dl class="facts">
                {s.source && (
                  <>
                    <dt>{t("skill.source")}</dt>
                    <dd>{t(`value.skill.${s.source}`)}</dd>
                  </>
                )}
                {s.from && (
                  <>
                    <dt>{t("skill.from")}</dt>
                    <dd>{visible(s.from)}</dd>
                  </>
                )}
                {s.installed_at && (
                  <>
                    <dt>{t("skill.installed")}</dt>
                    <dd>{fullDate(s.installed_at)}</dd>
                  </>
                )}
                {s.path && (
                  <>
                    <dt>{t("skill.path")}</dt>
                    <dd>{visible(s.path)}</dd>
                  </>
                )}
                {s.homepage && (
                  <>
                    <dt>{t("skill.homepage")}</dt>
                    <dd>
                      {safeHref(s.homepage) ? (
                        <a href={safeHref(s.homepage)} target="_blank" rel="noreferrer noopener">
                          {visible(s.homepage)}
                        </a>
                      ) : (
                        visible(s.homepage)
                      )}
                    </dd>
                  </>
                )}
              </dl>
              {s.notes?.map((n) => (
                <p key={n} class="note warn">
                  {visible(n)}
                </p>
              ))}
              <div class="row">
                {s.source !== "installed" && (
                  <a class="button" href={hrefOf(s.name) + "/edit"}>
                    {s.source === "builtin" ? t("skill.own") : t("skill.edit")}
                  </a>
                )}
                <button type="button" class="button" onClick={disable}>
                  {t("skill.disable")}
                </button>
                {s.source !== "builtin" && (
                  <button type="button" class="button danger" onClick={() => setAsking(true)}>
                    {common("chats.delete")}
                  </button>
                )}
              </div>
            </section>
            <section>
              <h2>{t("skill.text")}</h2>
              <pre class="skill-text" tabIndex={0} aria-label={t("skill.text")}>
                {visible(s.text ?? "")}
              </pre>
            </section>
            {asking && (
              <Confirm
                title={t("skill.delete.title", { name: label(s.name) })}
                text={t("skill.delete.text")}
                action={common("chats.delete")}
                onConfirm={remove}
                onClose={() => setAsking(false)}
              />
            )}
          </>
        )
      }
    </Read>
  );
}
