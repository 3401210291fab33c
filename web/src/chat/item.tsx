// One part of a conversation.
import { Component } from "preact";
import { count, fullDate, money, t } from "../i18n";
import type { Attachment, EndItem, Item, TextItem, ThoughtItem, UserItem } from "../state/items";
import { discard, resend } from "../state/store";
import { mediaSrc, ownHref, visible } from "../text/links";
import { Text } from "../text/markdown";
import { Icon } from "../ui/icon";
import { Approval } from "./approval";
import { Tool } from "./tool";

interface Props {
  item: Item;
  chat: string;
}

interface State {
  broken: boolean;
}

/** ItemView renders again only when its item is another one. What cannot be
 *  rendered is shown as plain text and leaves the others alone. */
export class ItemView extends Component<Props, State> {
  override state: State = { broken: false };

  override shouldComponentUpdate(next: Props, state: State) {
    return next.item !== this.props.item || state.broken !== this.state.broken;
  }

  override componentDidCatch(e: unknown) {
    console.warn("a part of the conversation cannot be shown", e);
    this.setState({ broken: true });
  }

  override render({ item, chat }: Props, { broken }: State) {
    if (broken) return <p class="notice">{"text" in item ? String(item.text) : ""}</p>;
    switch (item.kind) {
      case "user":
        return <User item={item} chat={chat} />;
      case "text":
        return <Answer item={item} />;
      case "thought":
        return <Thought item={item} />;
      case "tool":
        return <Tool item={item} />;
      case "question":
        return <Approval item={item} chat={chat} />;
      case "end":
        return <End item={item} />;
      case "notice":
        return <p class={item.bad ? "notice bad" : "notice"}>{item.text}</p>;
    }
  }
}

function User({ item, chat }: { item: UserItem; chat: string }) {
  return (
    <article class={item.command ? "user command" : "user"} aria-label={t("chat.you")} title={item.at && fullDate(item.at)} dir="auto">
      {item.text}
      <Files media={item.media} />
      {item.state === "pending" && <span class="state">{t("chat.pending")}</span>}
      {item.state === "failed" && (
        <span class="state bad">
          {t("chat.failed", { why: item.why ?? "" })}
          <button type="button" class="button" onClick={() => resend(chat, item.turn!)}>{t("chat.resend")}</button>
          <button type="button" class="button" onClick={() => discard(chat, item.turn!)}>{t("chat.discard")}</button>
        </span>
      )}
    </article>
  );
}

function Answer({ item }: { item: TextItem }) {
  return (
    <article aria-label={t("chat.answer")} aria-busy={item.open} dir="auto">
      <Text text={item.text} open={item.open} />
      <Files media={item.media} />
      {item.interrupted && <p class="notice">{t("chat.interrupted")}</p>}
    </article>
  );
}

function Files({ media }: { media?: Attachment[] }) {
  if (!media?.length) return null;
  return (
    <ul class="files">
      {media.map((m) => (
        <li>{m.url && ownHref(m.url) ? <File name={m.name} url={mediaSrc(m.url)} /> : visible(m.name)}</li>
      ))}
    </ul>
  );
}

function File({ name, url }: { name: string; url: string }) {
  const image = /\.(?:png|jpe?g|gif|webp|avif)$/i.test(name);
  return (
    <a href={url} target="_blank" rel="noopener noreferrer">
      {image ? <img src={url} alt={visible(name)} loading="lazy" /> : visible(name)}
    </a>
  );
}

function Thought({ item }: { item: ThoughtItem }) {
  return (
    <details class="thought">
      <summary>
        <Icon name="chevron" class="chevron" />
        {item.open ? t("chat.thinking") : t("chat.thought")}
      </summary>
      <div class="body" dir="auto">{item.text}</div>
    </details>
  );
}

function End({ item }: { item: EndItem }) {
  const tokens = (item.usage?.prompt_tokens ?? 0) + (item.usage?.completion_tokens ?? 0);
  const cost = item.usage?.cost_usd ?? 0;
  return (
    <footer class="footer">
      {item.ms !== undefined && <span>{t("end.seconds", { n: item.ms < 10_000 ? (item.ms / 1000).toFixed(1) : Math.round(item.ms / 1000) })}</span>}
      {tokens > 0 && <span>{t("end.tokens", { n: count(tokens) })}</span>}
      {cost > 0 && <span>{money(cost)}</span>}
      {item.model && <span>{visible(item.model)}</span>}
      {(item.stop === "stopped" || item.stop === "cancelled") && <span>{t("end.stopped")}</span>}
      {item.error && <span class="bad">{t("end.error", { why: item.error })}</span>}
    </footer>
  );
}
