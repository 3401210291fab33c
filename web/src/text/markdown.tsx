// A text of the model on the screen.
import { Component } from "preact";
import type { ComponentChild } from "preact";
import { Markdown } from "./blocks";
import type { Block } from "./blocks";
import { renderBlock } from "./render";

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
    this.plan(this.doc.set(this.props.text));
    const end = performance.now();
    this.rest = end - start > 4 ? end + 4 * (end - start) : 0;
  }

  override render() {
    if (this.timer === undefined) this.parse();
    // Elements of blocks that did not change are the same objects: Preact skips them.
    const blocks = this.doc.blocks;
    const drawn = blocks.map((b, n) => (this.from[n] === b ? this.drawn[n] : renderBlock(b, n)));
    this.from = blocks.slice();
    this.drawn = drawn;
    return <div class="md">{drawn}</div>;
  }
}
