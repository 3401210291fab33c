package tui

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
)

// Summary says how a OneShot turn ended.
type Summary struct {
	// Final is the reply of the turn; its Kind is empty if none arrived. It has
	// been shown already, including the error text in its Turn.
	Final bus.Outbound
}

// OneShot sends Options.Message and prints the answer. On a terminal it streams
// and shows hints and a footer; into a pipe it writes the answer only, with
// hints on Err if that is a terminal; with NO_COLOR it streams as plain text; with JSON it writes one bus.Outbound per
// line. The error is what Ask yielded or why Out could not be written; it has
// not been shown.
func OneShot(ctx context.Context, o Options) (Summary, error) {
	switch {
	case o.JSON:
		return oneShotJSON(ctx, &o)
	case o.fancy() && !o.noColour():
		return oneShotTerminal(ctx, &o)
	}
	return oneShotPlain(ctx, &o)
}

func (o *Options) question() bus.Inbound {
	in := o.inbound(o.Message, true)
	in.Media = o.Media
	return in
}

func oneShotJSON(ctx context.Context, o *Options) (sum Summary, err error) {
	enc := json.NewEncoder(o.Console.Out)
	enc.SetEscapeHTML(false)
	for out, err := range o.Ask(ctx, o.question()) {
		if err != nil {
			return sum, err
		}

		if out.Kind == bus.Final {
			sum.Final = out
		}

		if err := enc.Encode(out); err != nil {
			return sum, err
		}
	}

	return sum, nil
}

// oneShotPlain writes only the text of the final answer to a pipe: what the
// model says before it calls tools is progress, whether it came streamed or not.
func oneShotPlain(ctx context.Context, o *Options) (sum Summary, err error) {
	p := newPlainView(o)
	if o.Console.OutTTY {
		return oneShotStream(ctx, o, p)
	}

	var segment strings.Builder
	for out, err := range o.Ask(ctx, o.question()) {
		if err != nil {
			if strings.TrimSpace(segment.String()) != "" { // stopped: what there is of the answer
				p.answer(segment.String())
				p.closeTurn()
			}
			return sum, err
		}
		switch out.Kind {
		case bus.Delta:
			segment.WriteString(out.Text)
		case bus.DeltaEnd:
			if text := strings.TrimSpace(segment.String()); out.Resuming {
				segment.Reset()
				if text != "" && !out.Void {
					p.show(bus.Outbound{Kind: bus.Progress, Text: text})
				}
			}

		case bus.Final:
			sum.Final = out
			if out.Text == "" {
				out.Text = segment.String()
			}
			out.Streamed = false
			p.show(out)

		default:
			p.show(out)
		}
	}

	if sum.Final.Kind == "" && segment.Len() > 0 {
		p.answer(segment.String())
	}

	p.closeTurn()
	return sum, nil
}

// oneShotStream is for a terminal that takes no escape sequences.
func oneShotStream(ctx context.Context, o *Options, p *plainView) (sum Summary, err error) {
	defer p.closeTurn()
	for out, err := range o.Ask(ctx, o.question()) {
		if err != nil {
			return sum, err
		}
		if out.Kind == bus.Final {
			sum.Final = out
		}
		p.show(out)
	}

	return sum, nil
}

// oneShotTerminal streams to a terminal with a status line below the text.
func oneShotTerminal(ctx context.Context, o *Options) (Summary, error) {
	undo, err := terminalEscapes(o.Console)
	if err != nil {
		return oneShotPlain(ctx, o)
	}

	defer undo()
	scr := newScreen(o)
	v := newView(o, scr.columns)
	v.begin(time.Now())
	v.titled = true // a single answer does not need a name above it

	ctx, cancel := context.WithCancel(ctx)
	events := make(chan event) // unbuffered: a fast stream waits for the screen
	var work sync.WaitGroup
	defer work.Wait()
	defer cancel()
	work.Go(func() {
		defer close(events)
		for out, err := range o.Ask(ctx, o.question()) {
			select {
			case events <- event{out: out, err: err}:
			case <-ctx.Done():
				return
			}
		}
	})
	defer func() {
		scr.print(v.close()...)
		scr.clear()
	}()
	return followTurn(ctx, events, scr, v)
}

// followTurn draws events until there are no more.
func followTurn(ctx context.Context, events <-chan event, scr *screen, v *view) (sum Summary, err error) {
	paint := time.NewTimer(0)
	defer paint.Stop()
	var painted time.Time
	for {
		select {
		case e, ok := <-events:
			switch {
			case !ok && sum.Final.Kind == "":
				return sum, ctx.Err()
			case !ok:
				return sum, nil
			case e.err != nil:
				return sum, e.err
			case e.out.Kind == bus.Final:
				sum.Final = e.out
			}

			scr.print(v.show(e.out)...)
			if wait := framePeriod - time.Since(painted); wait > 0 {
				paint.Reset(wait)
				continue
			}
		case <-paint.C:
		}

		painted = time.Now()
		_, height := scr.size()
		live := append(hardWrap(v.preview(), scr.columns()), v.status(painted))
		live = live[max(0, len(live)-max(height-1, 1)):]
		scr.draw(live, len(live)-1, 0)
		paint.Reset(spinnerPeriod)
	}
}
