// A text of the model on the screen.
import { Component } from "preact";
import type { ComponentChild } from "preact";
import { Markdown } from "./blocks";
import type { Block } from "./blocks";
import { renderBlock } from "./render";

const part = 24; // blocks
const slice = 2; // milliseconds of parsing at a time, and at least one step

interface Props {
  text: string;
  open: boolean;
}

/** Text parses a message step by step, so that a long one does not block the page. */
export class Text extends Component<Props> {
  private readonly doc = new Markdown();
  private timer: ReturnType<typeof setTimeout> | undefined;
  private rest = 0; // nothing is parsed before
  private drawn: ComponentChild[] = [];
  private from: Block[] = [];
  private readonly parts: ComponentChild[] = [];

  override shouldComponentUpdate(next: Props) {
    return next.text !== this.props.text || next.open !== this.props.open;
  }

  override componentWillUnmount() {
    clearTimeout(this.timer);
  }

  private readonly more = () => {
    this.timer = undefined;
    this.forceUpdate();
  };

  private plan(left: boolean, wait = 0) {
    if (left && this.timer === undefined) this.timer = setTimeout(this.more, wait);
  }

  // A text whose end is expensive to parse is parsed less often: it may take a
  // fifth of the time.
  private parse() {
    const start = performance.now();
    if (this.props.open && start < this.rest) {
      this.plan(true, this.rest - start);
      return;
    }

    let left = this.doc.set(this.props.text);
    while (left && performance.now() - start < slice) left = this.doc.work();
    this.plan(left);
    const end = performance.now();
    this.rest = end - start > 4 ? end + 4 * (end - start) : 0;
  }

  override render() {
    if (this.timer === undefined || !this.props.open) this.parse(); // the end is shown at once
    // What did not change are the same objects, which Preact skips. Parts are for
    // the browser, which lays out again only the part that changed.
    const { from, parts } = this;
    const blocks = this.doc.blocks.slice();
    const drawn = blocks.map((b, n) => (from[n] === b ? this.drawn[n] : renderBlock(b, n)));
    let same = 0;
    while (same < blocks.length && from[same] === blocks[same]) same++;
    parts.length = Math.min(parts.length, Math.floor(same / part));
    for (let n = parts.length * part; n < blocks.length; n += part)
      parts.push(
        <div key={n} class="part">
          {drawn.slice(n, n + part)}
        </div>,
      );

    this.from = blocks;
    this.drawn = drawn;

    return (
      <div class="md" aria-busy={this.timer !== undefined && !this.props.open}>
        {parts.slice()}
      </div>
    );
  }
}
