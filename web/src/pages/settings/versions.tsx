// Earlier versions of the configuration file.
import { useState } from "preact/hooks";
import { t as common, fullDate } from "../../i18n";
import { t } from "../../i18n/settings";
import { useRead } from "../../state/read";
import { request } from "../../state/store";
import { fail } from "../../state/toast";
import { visible } from "../../text/links";
import { Dialog } from "../../ui/dialog";
import { Read } from "../../ui/read";
import { Table } from "../../ui/table";
import type { Version, VersionDiff, VersionPage } from "../../wire/reads";
import { DiffText } from "./difftext";
import { tellSaved } from "./section";

export function Versions({ base, onSaved }: { base: string; onSaved(): void }) {
  const [cursor, setCursor] = useState("");
  const read = useRead<VersionPage>("settings/versions", { cursor }, "settings");
  const [of, setOf] = useState<Version | undefined>(undefined);

  return (
    <section>
      <h2>{t("settings.versions.title")}</h2>
      <p class="hint">{t("settings.versions.about")}</p>
      <Read of={read}>
        {(data) => (
          <>
            <Table
              label={t("settings.versions.title")}
              rows={data.versions}
              id={(v) => v.id}
              columns={[
                {
                  title: t("settings.version.saved"),
                  cell: (v) => (v.saved_at ? fullDate(v.saved_at) : t("settings.version.first")),
                },
                { title: t("settings.version.changed"), cell: (v) => visible(v.changed.join(", ")) || "–" },
                {
                  title: t("settings.actions"),
                  cell: (v) =>
                    v.id === "current" ? (
                      <strong>{t("settings.version.current")}</strong>
                    ) : (
                      <button
                        type="button"
                        class="button"
                        aria-label={t("settings.version.compare.of", {
                          at: v.saved_at ? fullDate(v.saved_at) : t("settings.version.first"),
                        })}
                        onClick={() => setOf(v)}
                      >
                        {t("settings.version.compare")}
                      </button>
                    ),
                },
              ]}
            />
            {data.versions.length < 2 && cursor === "" && <p class="hint">{t("settings.versions.none")}</p>}
            <div class="row">
              {cursor && (
                <button type="button" class="button" onClick={() => setCursor("")}>
                  {t("settings.versions.newest")}
                </button>
              )}
              {data.cursor && (
                <button type="button" class="button" onClick={() => setCursor(data.cursor)}>
                  {t("settings.versions.older")}
                </button>
              )}
            </div>
          </>
        )}
      </Read>
      {of && (
        <Compare of={of} base={base} onClose={() => setOf(undefined)} onSaved={() => (read.reload(), onSaved())} />
      )}
    </section>
  );
}

function Compare({ of, base, onClose, onSaved }: { of: Version; base: string; onClose(): void; onSaved(): void }) {
  // From now to then: what restoring would do.
  const read = useRead<VersionDiff>("settings/diff", { version: "current", to: of.id });
  const restore = () =>
    request<Parameters<typeof tellSaved>[0]>("settings.restore", { version: of.id, base }).then(
      (r) => (onClose(), tellSaved(r), onSaved()),
      fail,
    );

  return (
    <Dialog
      title={t("settings.version.title", { at: of.saved_at ? fullDate(of.saved_at) : t("settings.version.first") })}
      onClose={onClose}
    >
      <Read of={read}>
        {(d) => (
          <>
            <p>
              {d.hidden
                ? t("settings.version.hidden")
                : d.diff === ""
                  ? t("settings.version.same")
                  : t("settings.version.diff", { added: d.added, removed: d.removed })}
            </p>
            {d.diff !== "" && <DiffText text={d.diff} />}
          </>
        )}
      </Read>
      <div class="row">
        <button type="button" class="button" onClick={onClose}>
          {common("dialog.cancel")}
        </button>
        <button
          type="button"
          class="button primary"
          disabled={read.data === undefined || of.broken}
          onClick={() => void restore()}
        >
          {t("settings.version.restore")}
        </button>
      </div>
    </Dialog>
  );
}
