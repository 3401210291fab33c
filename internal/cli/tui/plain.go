package tui

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/nanobot-go/nanobot/internal/bus"
)

// plainChat is Chat without escape sequences: one message per line of input, a
// backslash at the end of a line continues it, one turn after the other. Lines
// typed while a turn runs wait in the terminal for the next prompt.
func plainChat(ctx context.Context, o *Options) error {
	ctx, cancel := context.WithCancel(ctx)
	var work sync.WaitGroup
	input := make(chan []byte)
	stopReading, _ := startReading(ctx, o.Console.In, input, &work)
	defer work.Wait()
	defer stopReading()
	defer cancel()

	p := newPlainView(o)
	if b := o.Banner; o.Console.OutTTY {
		if title := strings.TrimSpace(b.Icon + " " + b.Name + " " + b.Model); title != "" {
			p.write(neutral(title) + "\n")
		}
		for _, h := range b.Hints {
			p.write(neutral(h) + "\n")
		}
	}

	lines := lineSource{input: input}
	var message strings.Builder
	prompt := o.words("You: ")
	for {
		s, err := lines.next(ctx, p, prompt)
		if err != nil {
			p.closeLine() // the shell's prompt gets its own line
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}

		p.open = false // the terminal has echoed the line end
		if part, more := strings.CutSuffix(s, `\`); more && !strings.HasSuffix(part, `\`) {
			message.WriteString(part + "\n")
			prompt = "...  "
			continue
		}

		message.WriteString(s)
		text := strings.TrimSpace(message.String())
		message.Reset()
		if isFarewell(text) {
			return nil
		}

		if text != "" {
			plainTurn(ctx, o, p, text)
		}
		prompt = o.words("You: ")
	}
}

// plainTurn runs one turn; an interrupt ends it.
func plainTurn(ctx context.Context, o *Options, p *plainView, text string) {
	turnCtx, cancel := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-turnCtx.Done():
			return
		case <-o.Interrupts:
		}

		if o.Stop == nil {
			cancel()
			return
		}

		o.Stop(turnCtx, o.route().SessionKey())
		select {
		case <-turnCtx.Done():
		case <-o.Interrupts: // it does not want to end: cut it off
			cancel()
		}
	})
	defer watch.Wait()
	defer cancel()

	for out, err := range o.Ask(turnCtx, o.inbound(text, o.Console.OutTTY)) {
		if err != nil {
			p.failure(err)
			continue
		}
		p.show(out)
	}

	p.closeTurn()
}

// lineSource cuts a stream of chunks into lines.
type lineSource struct {
	input <-chan []byte
	buf   strings.Builder
	rest  string
	ended bool
}

// next waits for a line at the prompt, which only a terminal sees. Late
// messages are shown while waiting, so not in the middle of a turn.
func (l *lineSource) next(ctx context.Context, p *plainView, prompt string) (string, error) {
	p.prompt(prompt)
	for {
		if head, tail, ok := strings.Cut(l.rest, "\n"); ok {
			l.buf.WriteString(head)
			l.rest = tail
			s := l.buf.String()
			l.buf.Reset()
			return strings.ToValidUTF8(strings.TrimSuffix(s, "\r"), "\uFFFD"), nil
		}

		l.buf.WriteString(l.rest)
		l.rest = ""
		if l.ended {
			if l.buf.Len() == 0 {
				return "", io.EOF
			}
			l.rest = "\n"
			continue
		}

		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-p.o.Interrupts:
			return "", io.EOF // Ctrl-C at the prompt leaves
		case out, ok := <-p.o.Late:
			if !ok {
				p.o.Late = nil
				continue
			}
			p.closeLine()
			p.show(out)
			p.o.shown(out)
			p.prompt(prompt)

		case chunk, ok := <-l.input:
			l.ended = !ok
			l.rest = string(chunk)
		}
	}
}

// plainView writes a turn as plain text: the answer to Out, everything else to
// Out too if that is a terminal, else to Err if that is one, else nowhere.
type plainView struct {
	o     *Options
	side  io.Writer // hints, notices, errors; nil drops them
	tty   bool
	carry string // bytes of a rune cut in two
	open  bool   // the last line written to Out has no end yet
	shown bool   // streamed text was written in this turn
}

func newPlainView(o *Options) *plainView {
	p := &plainView{o: o, tty: o.Console.OutTTY}
	switch {
	case p.tty:
		p.side = o.Console.Out
	case o.Console.ErrTTY:
		p.side = o.Console.Err
	}
	return p
}

// prompt asks for input if a person is there to see it.
func (p *plainView) prompt(s string) {
	if p.o.Console.InTTY && p.tty {
		p.write(s)
	}
}

// write writes to Out; what cannot be written ends with the program's pipe.
func (p *plainView) write(s string) {
	if s == "" {
		return
	}
	p.open = !strings.HasSuffix(s, "\n")
	_, _ = io.WriteString(p.o.Console.Out, s)
}

// answer writes a piece of the answer: as it is into a pipe, made harmless on a
// terminal.
func (p *plainView) answer(s string) {
	if !p.tty {
		p.write(s)
		return
	}

	s = p.carry + s
	p.carry = ""
	if i := incompleteRune(s); i < len(s) {
		s, p.carry = s[:i], s[i:]
	}
	p.write(neutral(strings.ReplaceAll(s, "\r\n", "\n")))
}

// incompleteRune returns the offset of a rune at the end of s that may go on.
func incompleteRune(s string) int {
	for i := len(s) - 1; i >= 0 && i >= len(s)-utf8.UTFMax; i-- {
		if utf8.RuneStart(s[i]) {
			if !utf8.FullRuneInString(s[i:]) {
				return i
			}
			break
		}
	}
	return len(s)
}

func (p *plainView) printAside(s string) {
	if p.side == nil {
		return
	}
	if p.tty {
		p.closeLine()
	}
	_, _ = io.WriteString(p.side, s+"\n")
}

func (p *plainView) closeLine() {
	if p.carry != "" {
		p.write(neutral(p.carry))
		p.carry = ""
	}
	if p.open {
		p.write("\n")
	}
}

func (p *plainView) show(out bus.Outbound) {
	switch out.Kind {
	case bus.Delta:
		p.shown = p.shown || out.Text != ""
		p.answer(out.Text)
	case bus.DeltaEnd:
		p.closeLine()
	case bus.Message:
		p.closeLine()
		p.answer(out.Text)
		p.closeLine()
		for _, m := range out.Media {
			p.printAside("+ " + neutral(m.Path))
		}

		if q := out.Question; q != nil && q.Text == "" {
			p.printAside("  " + neutral(strings.Join(p.o.options(q), " / ")))
		}

	case bus.Final:
		if (!out.Streamed || !p.shown) && !isError(out) {
			p.closeLine()
			p.answer(out.Text)
		}

		p.closeLine()
		for _, m := range out.Media {
			p.printAside("+ " + neutral(m.Path))
		}
		p.turn(out)

	default:
		p.aside(out)
	}
}

// aside shows what is not the answer itself.
func (p *plainView) aside(out bus.Outbound) {
	text := neutral(strings.TrimSpace(out.Text))
	switch {
	case out.Kind == bus.Progress:
		p.printAside("↳ " + text)
	case out.Kind == bus.ToolHint && p.o.ShowTools:
		p.printAside("↳ " + text)
	case out.Kind == bus.Notice && out.Brief && p.side == nil: // why it takes long concerns scripts as well
		_, _ = io.WriteString(p.o.Console.Err, "! "+text+"\n")
	case out.Kind == bus.Notice, out.Kind == bus.Gone && text != "":
		p.printAside("! " + text)
	case out.Kind == bus.Ask:
		p.printAside("? " + text)
		if q := out.Question; q != nil && len(q.Options) > 0 {
			p.printAside("  " + neutral(strings.Join(p.o.options(q), " / ")))
		}

	case out.Kind == bus.ToolEvent && out.Tool != nil && out.Tool.Phase == "error" && p.o.ShowTools:
		p.printAside("✗ " + neutral(p.o.callLine(out.Tool)))
	}
}

func (p *plainView) turn(out bus.Outbound) {
	t := out.Turn
	if t == nil {
		return
	}

	if t.Error != "" {
		p.printAside(p.o.words("error: ") + neutral(strings.TrimSpace(t.Error)))
	}
	if s := p.o.footer(t); s != "" && p.tty {
		p.printAside(s)
	}
}

func (p *plainView) failure(err error) {
	if errors.Is(err, context.Canceled) {
		p.printAside("! " + p.o.words("stopped"))
		return
	}
	text, hint := p.o.explain(err)
	p.printAside(p.o.words("error: ") + text)
	if hint != "" {
		p.printAside("  → " + hint)
	}
}

// closeTurn ends the output of a turn.
func (p *plainView) closeTurn() {
	p.closeLine()
	p.shown = false
}
