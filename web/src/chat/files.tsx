// The files of a message that is being written.
import { failureText, t } from "../i18n";
import { attach, attached, detach, limits } from "../state/attach";
import type { Attached, Why } from "../state/attach";
import { toast } from "../state/toast";
import { label, visible } from "../text/links";
import { Icon } from "../ui/icon";

const mib = (n: number) => n >> 20;

function say(why: Why, name: string): string {
  const values = {
    name: visible(label(name)),
    files: limits.files,
    file: mib(limits.file),
    video: mib(limits.video),
    total: mib(limits.total),
  };
  return t(why, values);
}

/** add attaches files and says at once why it does not. */
export function add(key: string, files: Iterable<File>) {
  for (const f of files) {
    const why = attach(key, f);
    if (why) toast(say(why, f.name), true);
  }
}

/** filesOf are those of a paste or a drop. */
export const filesOf = (data: DataTransfer | null): File[] =>
  [...(data?.items ?? [])].flatMap((i) => (i.kind === "file" ? (i.getAsFile() ?? []) : []));

export function size(n: number): string {
  return n < 1024 ? `${n} B` : n < 1 << 20 ? `${Math.round(n / 1024)} KiB` : `${(n / (1 << 20)).toFixed(1)} MiB`;
}

export function Attachments({ of }: { of: string }) {
  const list = attached(of).value;
  if (list.length === 0) return null;
  return (
    <ul class="attached" aria-label={t("attach.list")}>
      {list.map((a) => (
        <One key={a.id} of={of} file={a} />
      ))}
    </ul>
  );
}

function One({ of, file }: { of: string; file: Attached }) {
  const name = visible(file.name);
  const state = file.failure
    ? failureText(file.failure)
    : file.upload
      ? size(file.size)
      : t("attach.sending", { share: Math.round(file.share * 100) });

  return (
    <li class={file.failure ? "bad" : undefined}>
      {file.blob && <img src={file.blob} alt="" />}
      <span class="name" title={name}>
        {name}
      </span>
      <span class="state">{state}</span>
      {!file.upload && !file.failure && (
        <progress max={1} value={file.share} aria-label={t("attach.progress", { name })} />
      )}
      <button
        type="button"
        class="button plain square"
        aria-label={t("attach.remove", { name })}
        onClick={() => detach(of, file.id)}
      >
        <Icon name="close" />
      </button>
    </li>
  );
}
