// MCP servers: programs and services whose tools the agent may use.
import { useState } from "preact/hooks";
import { t as common } from "../i18n";
import { shortDate } from "../ui/days";
import { t } from "../i18n/mcp";
import { useRead } from "../state/read";
import { go } from "../state/route";
import { fail, toast } from "../state/toast";
import { useWatch } from "../state/watch";
import { label, visible } from "../text/links";
import { Icon } from "../ui/icon";
import { Confirm, Row, State } from "../ui/list";
import { Login } from "../ui/login";
import { Read } from "../ui/read";
import type { LoginStep, Server, ServerList, ServerLog } from "../wire/reads";
import { Bar } from "./bar";
import { Edit, Import } from "./mcp/edit";
import { Tools } from "./mcp/tools";
import { act, hrefOf, stateOf } from "./mcp/wire";
import type { PageProps } from "./table";

export default function Mcp({ rest: [part = "", verb] }: PageProps) {
  const list = useRead<ServerList>("settings/mcp-presets", {}, "mcp");
  useWatch("mcp");
  return (
    <>
      <Bar title={common("page.mcp")} />
      <div class="page">
        <div class="inner">
          {part === "+add" && <Edit />}
          {part === "+import" && <Import />}
          {!part.startsWith("+") && (
            <Read of={list}>
              {({ servers }) => {
                if (!part) return <List all={servers} />;
                const s = servers.find((x) => x.name === part);
                if (!s)
                  return (
                    <p class="hint">
                      {t("mcp.gone")} <a href="#/mcp">{t("mcp.back")}</a>
                    </p>
                  );
                return verb === "edit" ? <Edit key={s.name} of={s} /> : <Detail key={s.name} s={s} />;
              }}
            </Read>
          )}
        </div>
      </div>
    </>
  );
}

function List({ all }: { all: Server[] }) {
  return (
    <section>
      <div class="spread">
        <h2>{t("mcp.servers")}</h2>
        <div class="row">
          <a class="button" href="#/mcp/+import">
            {t("mcp.import")}
          </a>
          <a class="button primary" href="#/mcp/+add">
            <Icon name="plus" />
            {t("mcp.add")}
          </a>
        </div>
      </div>
      {all.length === 0 && <p class="hint">{t("mcp.none")}</p>}
      {all.length > 0 && (
        <ul class="things">
          {all.map((s) => {
            const { tone, text } = stateOf(s);
            const count = s.tools === undefined ? "" : t("mcp.tools.n", { n: s.tools });
            return (
              <Row
                key={s.name}
                href={hrefOf(s.name)}
                title={label(s.name)}
                state={
                  <>
                    <State tone={tone}>{visible(text)}</State>
                    {s.unaccepted > 0 && <State tone="warn">{t("mcp.review.n", { n: s.unaccepted })}</State>}
                  </>
                }
                about={[visible(s.error ?? s.target ?? ""), count].filter(Boolean).join(" · ")}
              />
            );
          })}
        </ul>
      )}
    </section>
  );
}

function Detail({ s }: { s: Server }) {
  const [logging, setLogging] = useState(false);
  const [removing, setRemoving] = useState(false);
  const { tone, text } = stateOf(s);
  const remove = () =>
    void act("remove", { name: s.name }).then(() => {
      toast(t("mcp.removed"));
      go("#/mcp");
    }, fail);

  return (
    <>
      <section>
        <a class="hint" href="#/mcp">
          {t("mcp.back")}
        </a>
        <div class="spread">
          <h2>{label(s.name)}</h2>
          <State tone={tone}>{visible(text)}</State>
        </div>
        {s.error && (
          <p class="note warn" role="status">
            {visible(s.error)}
          </p>
        )}
        {s.warnings?.map((w) => (
          <p key={w} class="note">
            {visible(w)}
          </p>
        ))}
        <dl class="facts">
          {s.target && (
            <>
              <dt>{s.transport === "stdio" ? t("mcp.program") : t("mcp.address")}</dt>
              <dd>{visible(s.target)}</dd>
            </>
          )}
          {s.protocol && (
            <>
              <dt>{t("mcp.protocol")}</dt>
              <dd>{visible(s.protocol)}</dd>
            </>
          )}
          {s.since && (
            <>
              <dt>{t("mcp.since")}</dt>
              <dd>{shortDate(s.since)}</dd>
            </>
          )}
          {s.tools !== undefined && (
            <>
              <dt>{t("mcp.offers")}</dt>
              <dd>{t("mcp.offers.n", { tools: s.tools, resources: s.resources ?? 0, prompts: s.prompts ?? 0 })}</dd>
            </>
          )}
        </dl>
        <div class="row">
          {s.enabled && (
            <button
              type="button"
              class="button"
              onClick={() => void act("reconnect", { name: s.name }).then(() => toast(t("mcp.reconnecting")), fail)}
            >
              {t("mcp.reconnect")}
            </button>
          )}
          {s.transport !== "stdio" && s.state !== "invalid" && (
            <button
              type="button"
              class={s.state === "pending-login" ? "button primary" : "button"}
              onClick={() => setLogging(true)}
            >
              {t("mcp.login")}
            </button>
          )}
          <button
            type="button"
            class="button"
            onClick={() => void act(s.enabled ? "disable" : "enable", { name: s.name }).catch(fail)}
          >
            {s.enabled ? t("mcp.disable") : t("mcp.enable")}
          </button>
          <a class="button" href={hrefOf(s.name) + "/edit"}>
            {t("mcp.change")}
          </a>
          <button type="button" class="button danger" onClick={() => setRemoving(true)}>
            {t("mcp.remove")}
          </button>
        </div>
      </section>
      <Tools s={s} />
      {s.transport === "stdio" && <Log name={s.name} />}
      {removing && (
        <Confirm
          title={t("mcp.remove.title", { name: label(s.name) })}
          text={t("mcp.remove.text")}
          action={t("mcp.remove")}
          onConfirm={remove}
          onClose={() => setRemoving(false)}
        />
      )}
      {logging && (
        <Login
          title={t("mcp.login.title", { name: label(s.name) })}
          steps={{
            start: () => act<LoginStep>("oauth_start", { name: s.name }),
            next: (pasted) => act<LoginStep>("oauth_complete", { name: s.name, pasted }),
            cancel: () => act("oauth_cancel", { name: s.name }),
          }}
          onClose={(done) => (setLogging(false), done && toast(t("mcp.loggedin")))}
        />
      )}
    </>
  );
}

function Log({ name }: { name: string }) {
  const log = useRead<ServerLog>("settings/mcp-log", { name }, "mcp");
  return (
    <section>
      <h2>{t("mcp.log")}</h2>
      {log.data?.log ? (
        <pre class="tail" tabIndex={0} aria-label={t("mcp.log")}>
          {visible(log.data.log)}
        </pre>
      ) : (
        <p class="hint">{t("mcp.log.none")}</p>
      )}
    </section>
  );
}
