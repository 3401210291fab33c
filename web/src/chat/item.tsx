// One part of a conversation.
import { Component } from "preact";
import { fullDate, refusalText, t } from "../i18n";
import { t as tt } from "../i18n/tools";
import type { Attachment, Item, NoteItem, TextItem, ThoughtItem, UserItem } from "../state/items";
import { showFile } from "../state/panel";
import { chatOf, discard, fork, indexOf, isTemporary, resend } from "../state/store";
import { toast } from "../state/toast";
import { mediaSrc, ownHref, visible } from "../text/links";
import { copy } from "../text/code";
import { Text } from "../text/markdown";
import { Picture, picturePath } from "../text/picture";
import { Icon } from "../ui/icon";
import { kept } from "../wire/api";
import { Approval } from "./approval";
import { Footer } from "./footer";
import { Group, Tool } from "./tool";

interface Props {
  item: Item;
  chat: string;
  id: string; // of the conversation
  waiting?: boolean; // a call that waits for an answer
}

interface State {
  broken: boolean;
}

/** ItemView renders again only when its item is another one. What cannot be
 *  rendered is shown as plain text and leaves the others alone. */
export class ItemView extends Component<Props, State> {
  override state: State = { broken: false };

  override shouldComponentUpdate(next: Props, state: State) {
    return next.item !== this.props.item || next.waiting !== this.props.waiting || state.broken !== this.state.broken;
  }

  override componentDidCatch(e: unknown) {
    console.warn("a part of the conversation cannot be shown", e);
    this.setState({ broken: true });
  }

  override render({ item, chat, id, waiting }: Props, { broken }: State) {
    if (broken) return <p class="notice">{"text" in item ? String(item.text) : ""}</p>;
    switch (item.kind) {
      case "user":
        return <User item={item} chat={chat} id={id} />;
      case "text":
        return <Answer item={item} id={id} />;
      case "thought":
        return <Thought item={item} />;
      case "tool":
        return <Tool item={item} waiting={waiting} />;
      case "question":
        return <Approval item={item} chat={chat} />;
      case "end":
        return <Footer item={item} />;
      case "group":
        return <Group item={item} />;
      case "note":
        return <Note item={item} />;
      case "notice":
        return <p class={item.bad ? "notice bad" : "notice"}>{item.text}</p>;
    }
  }
}

function User({ item, chat, id }: { item: UserItem; chat: string; id: string }) {
  return (
    <article
      class={item.command ? "user command" : "user"}
      aria-label={t("chat.you")}
      title={item.at && fullDate(item.at)}
      dir="auto"
    >
      {item.text}
      <Files media={item.media} />
      {item.state === "pending" && <span class="state">{t("chat.pending")}</span>}
      {item.state === "failed" && (
        <span class="state bad">
          {t("chat.failed", { why: refusalText(item.why ?? "") })}
          <button type="button" class="button" onClick={() => resend(chat, item.turn!)}>
            {t("chat.resend")}
          </button>
          <button type="button" class="button" onClick={() => discard(chat, item.turn!)}>
            {t("chat.discard")}
          </button>
        </span>
      )}
      {item.state === "sent" && <Actions item={item} id={id} />}
    </article>
  );
}

function Answer({ item, id }: { item: TextItem; id: string }) {
  return (
    <article aria-label={t("chat.answer")} aria-busy={item.open} dir="auto">
      {item.plain ? (
        <div class={item.text.includes("\n") ? "said lines" : "said"}>{item.text}</div>
      ) : (
        <Text text={item.text} open={item.open} />
      )}
      <Files media={item.media} />
      {item.interrupted && <p class="notice">{t("chat.interrupted")}</p>}
      {!item.open && <Actions item={item} id={id} />}
    </article>
  );
}

/** Actions are what can be done with a message. A conversation goes on from one of
 *  them in another conversation; this one stays as it is. */
function Actions({ item, id }: { item: UserItem | TextItem; id: string }) {
  const forks =
    chatOf(id) !== undefined &&
    !kept.has(id) &&
    !isTemporary(id) &&
    !(item.kind === "user" ? item.command : item.calls);

  const branch = async () => {
    const index = await indexOf(id, item);
    if (index === undefined) return toast(t("chat.notstored"), true);
    await fork(id, item.kind === "user" ? index : index + 1, item.kind === "user" ? item.text : undefined);
  };

  const words = item.kind === "user" ? t("chat.edit") : t("chat.fork");

  return (
    <span class="actions">
      <button
        type="button"
        class="button plain square"
        aria-label={t("chat.copy")}
        title={t("chat.copy")}
        onClick={() => void copy(item.text)}
      >
        <Icon name="copy" />
      </button>
      {forks && (
        <button
          type="button"
          class="button plain square"
          aria-label={words}
          title={words}
          onClick={() => void branch()}
        >
          <Icon name={item.kind === "user" ? "edit" : "fork"} />
        </button>
      )}
    </span>
  );
}

function Files({ media }: { media?: Attachment[] }) {
  if (!media?.length) return null;
  return (
    <ul class="files">
      {media.map((m) => (
        <li>
          {m.url && ownHref(m.url) ? (
            <File name={m.name} url={mediaSrc(m.url)} />
          ) : m.blob ? (
            <img src={m.blob} alt={visible(m.name)} onError={gone} />
          ) : m.path && picturePath(m.path) ? (
            <Picture path={m.path} name={m.name} />
          ) : m.path ? (
            <button type="button" class="button plain" onClick={() => showFile(m.path!)}>
              {visible(m.name)}
            </button>
          ) : (
            visible(m.name)
          )}
        </li>
      ))}
    </ul>
  );
}

// A picture of before a reload is gone; its name is left.
const gone = (e: Event) => {
  const img = e.currentTarget as HTMLImageElement;
  img.replaceWith(img.alt);
};

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
      <div class="body" dir="auto">
        {item.text}
      </div>
    </details>
  );
}

/** Note is a message that no person wrote. Its words are a stranger's. */
function Note({ item }: { item: NoteItem }) {
  const known = item.event === "subagent_result" || item.event === "session_message" ? item.event : "other";
  return (
    <details class="thought note">
      <summary>
        <Icon name="chevron" class="chevron" />
        {tt(`value.note.${known}`)}
      </summary>
      <div class="body" dir="auto">
        {item.text}
      </div>
    </details>
  );
}
