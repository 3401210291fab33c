// The slash commands that fit what was typed.
import { t } from "../i18n";
import type { SlashCommand } from "../wire/types";

/** fitting are the commands that a text could become: those whose name begins
 *  with it first, then those that contain it. */
export function fitting(all: readonly SlashCommand[], text: string): SlashCommand[] {
  if (!/^\/\S*$/.test(text)) return [];
  const word = text.slice(1).toLowerCase();
  const name = (c: SlashCommand) => c.name.replace(/^\//, "").toLowerCase();
  const first = all.filter((c) => name(c).startsWith(word));
  return [...first, ...all.filter((c) => !first.includes(c) && name(c).includes(word))].slice(0, 8);
}

/** completed is what the field contains after a choice. */
export const completed = (c: SlashCommand) => (c.name.startsWith("/") ? c.name : "/" + c.name) + (c.args ? " " : "");

export function Palette({
  commands,
  chosen,
  onChoose,
}: {
  commands: SlashCommand[];
  chosen: number;
  onChoose(c: SlashCommand): void;
}) {
  return (
    <ul id="palette" class="palette" role="listbox" aria-label={t("compose.commands")}>
      {commands.map((c, n) => (
        <li
          key={c.name}
          id={`command-${n}`}
          role="option"
          aria-selected={n === chosen}
          onPointerDown={(e) => (e.preventDefault(), onChoose(c))}
        >
          <code>
            {completed(c)}
            {c.args}
          </code>
          <span>{c.description}</span>
        </li>
      ))}
    </ul>
  );
}
