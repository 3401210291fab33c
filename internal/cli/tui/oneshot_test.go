package tui

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/bus"
)

// desk is a console without a terminal.
type desk struct {
	out, err bytes.Buffer
	asked    []bus.Inbound
}

func (d *desk) options(outs ...any) Options {
	return Options{
		Markdown: true, ShowTools: true, Message: "hi",
		Console: Console{In: strings.NewReader(""), Out: &d.out, Err: &d.err},
		Getenv:  func(string) string { return "" },
		Ask: func(_ context.Context, in bus.Inbound) iter.Seq2[bus.Outbound, error] {
			d.asked = append(d.asked, in)
			return func(yield func(bus.Outbound, error) bool) {
				for _, o := range outs {
					out, _ := o.(bus.Outbound)
					err, _ := o.(error)
					if !yield(out, err) {
						return
					}
				}
			}
		},
	}
}

func toolTurn() []any {
	text := "**Two** files: a\x1b[1m."
	return []any{
		bus.Outbound{Kind: bus.Reasoning, Text: "hm"},
		bus.Outbound{Kind: bus.Delta, Text: "I look."},
		bus.Outbound{Kind: bus.DeltaEnd, Resuming: true},
		bus.Outbound{Kind: bus.ToolHint, Text: "ls ."},
		bus.Outbound{Kind: bus.ToolEvent, Tool: &bus.Tool{Name: "list_dir", Phase: "start"}},
		bus.Outbound{Kind: bus.ToolEvent, Tool: &bus.Tool{Name: "list_dir", Phase: "end", Label: "ls .", Outcome: "3 lines", DurationMS: 12}},
		bus.Outbound{Kind: bus.Notice, Text: "slow \x07day"},
		bus.Outbound{Kind: bus.Delta, Text: text[:12]},
		bus.Outbound{Kind: bus.Delta, Text: text[12:]},
		bus.Outbound{Kind: bus.DeltaEnd},
		bus.Outbound{Kind: bus.Final, Text: text, Streamed: true, Turn: &bus.Turn{
			ID: "t", DurationMS: 1200, Usage: bus.Usage{Prompt: 950, Completion: 20, Estimated: true},
		}},
	}
}

// dumb is the environment of a terminal that takes no escape sequences.
func dumb(name string) string { return map[string]string{"TERM": "dumb"}[name] }

func TestOneShot(t *testing.T) {
	t.Parallel()
	final := bus.Outbound{Kind: bus.Final, Text: "done"}
	for _, c := range []struct {
		name     string
		turn     []any
		change   func(*Options)
		out, err string
	}{
		{name: "pipe gets the answer only", turn: toolTurn(), out: "**Two** files: a\x1b[1m.\n"},
		{
			name: "hints go to a terminal on stderr", turn: toolTurn(), change: func(o *Options) { o.Console.ErrTTY = true },
			out: "**Two** files: a\x1b[1m.\n", err: "↳ I look.\n↳ ls .\n! slow \\x07day\n",
		},
		{
			name: "NO_COLOR terminal", turn: toolTurn(), change: func(o *Options) {
				o.Console.OutTTY = true
				o.Getenv = func(k string) string { return map[string]string{"NO_COLOR": "1"}[k] }
			},
			out: "I look.\n↳ ls .\n! slow \\x07day\n**Two** files: a\\x1b[1m.\n~950 in · ~20 out · 1.2 s\n",
		},
		{
			name: "dumb terminal", turn: []any{final}, change: func(o *Options) {
				o.Console.OutTTY, o.Getenv = true, dumb
			},
			out: "done\n",
		},
		{name: "not streamed", turn: []any{final}, out: "done\n"},
		{name: "line end kept", turn: []any{bus.Outbound{Kind: bus.Final, Text: "a\n"}}, out: "a\n"},
		{name: "final without text", turn: []any{
			bus.Outbound{Kind: bus.Delta, Text: "before"},
			bus.Outbound{Kind: bus.DeltaEnd, Resuming: true},
			bus.Outbound{Kind: bus.Delta, Text: "after"},
			bus.Outbound{Kind: bus.DeltaEnd},
			bus.Outbound{Kind: bus.Final, Streamed: true},
		}, out: "after\n"},
		{name: "deltas without a final", turn: []any{bus.Outbound{Kind: bus.Delta, Text: "half"}}, out: "half\n"},
		{
			name: "turn error", turn: []any{bus.Outbound{Kind: bus.Final, Turn: &bus.Turn{Error: "no key\nat all"}}},
			change: func(o *Options) { o.Console.ErrTTY = true }, err: "error: no key\nat all\n",
		},
		{
			name: "media", turn: []any{bus.Outbound{Kind: bus.Final, Text: "see", Media: []bus.Media{{Path: "a.png"}}}},
			change: func(o *Options) { o.Console.ErrTTY = true }, out: "see\n", err: "+ a.png\n",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var d desk
			o := d.options(c.turn...)
			if c.change != nil {
				c.change(&o)
			}
			if _, err := OneShot(t.Context(), o); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.out, d.out.String()); diff != "" {
				t.Errorf("stdout (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.err, d.err.String()); diff != "" {
				t.Errorf("stderr (-want +got):\n%s", diff)
			}
		})
	}
}

// A question to a pipe that is stopped shows what there is of the answer.
// Why a question waits is told where standard error is no terminal, too.
func TestOneShotWaits(t *testing.T) {
	t.Parallel()
	d := &desk{}
	o := d.options(bus.Outbound{Kind: bus.Notice, Brief: true, Text: "waiting: in use by process 7"}, bus.Outbound{Kind: bus.Final, Text: "done"})
	if _, err := OneShot(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if d.out.String() != "done\n" || d.err.String() != "! waiting: in use by process 7\n" {
		t.Errorf("out %q, err %q", d.out.String(), d.err.String())
	}
}

func TestOneShotStopped(t *testing.T) {
	t.Parallel()
	var d desk
	stopped := errors.New("stopped")
	_, err := OneShot(t.Context(), d.options(bus.Outbound{Kind: bus.Delta, Text: "Once upon"}, bus.Outbound{Kind: bus.DeltaEnd}, stopped))
	if !errors.Is(err, stopped) || d.out.String() != "Once upon\n" || !d.asked[0].WantsStream {
		t.Errorf("out %q: %v", d.out.String(), err)
	}
}

func TestOneShotJSON(t *testing.T) {
	t.Parallel()
	var d desk
	o := d.options(toolTurn()...)
	o.JSON = true
	o.Console.OutTTY = true
	o.Media = []bus.Media{{Path: "x.txt"}}
	sum, err := OneShot(t.Context(), o)
	if err != nil || sum.Final.Turn == nil || sum.Final.Turn.ID != "t" {
		t.Errorf("summary %+v, %v; want the final", sum, err)
	}
	var got []any
	for l := range strings.Lines(d.out.String()) {
		var out bus.Outbound
		if err := json.Unmarshal([]byte(l), &out); err != nil {
			t.Fatalf("line %q: %v", l, err)
		}
		got = append(got, out)
	}
	if diff := cmp.Diff(toolTurn(), got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if in := d.asked[0]; in.Text != "hi" || !in.WantsStream || len(in.Media) != 1 {
		t.Errorf("inbound %+v", in)
	}
}

func TestOneShotReturnsErrors(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for name, change := range map[string]func(*Options){
		"pipe": func(*Options) {}, "json": func(o *Options) { o.JSON = true },
		"terminal": func(o *Options) { o.Console.OutTTY = true },
		"dumb":     func(o *Options) { o.Console.OutTTY, o.Getenv = true, dumb },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var d desk
			o := d.options(bus.Outbound{Kind: bus.Delta, Text: "so far"}, broken)
			change(&o)
			sum, err := OneShot(t.Context(), o)
			if !errors.Is(err, broken) || sum.Final.Kind != "" {
				t.Errorf("OneShot = %+v, %v; want the error", sum, err)
			}
			if strings.Contains(d.out.String()+d.err.String(), "broken") {
				t.Error("the error was both shown and returned")
			}
		})
	}
}

func TestOneShotTerminal(t *testing.T) {
	t.Parallel()
	var d desk
	v := newVT(40, 10)
	o := d.options(toolTurn()...)
	o.Console.Out, o.Console.OutTTY, o.Console.Size = v, true, v.size
	sum, err := OneShot(t.Context(), o)
	if err != nil || sum.Final.Turn == nil {
		t.Fatalf("OneShot = %+v, %v", sum, err)
	}
	want := "I look.\n✓ ls . · 3 lines · 12 ms\n! slow \\x07day\n\nTwo files: a\\x1b[1m.\n~950 in · ~20 out · 1.2 s\n▮\n"
	if diff := cmp.Diff(want, v.text(t)); diff != "" {
		t.Errorf("screen (-want +got):\n%s", diff)
	}
}

func TestPlainChat(t *testing.T) {
	t.Parallel()
	var d desk
	o := d.options(bus.Outbound{Kind: bus.Progress, Text: "busy"}, bus.Outbound{Kind: bus.Final, Text: "**ok**"})
	o.Console.In = strings.NewReader("one\r\n\ntwo\\\nlines\nlast without end")
	if err := Chat(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, in := range d.asked {
		got = append(got, in.Text)
	}
	if diff := cmp.Diff([]string{"one", "two\nlines", "last without end"}, got); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
	if got, want := d.out.String(), "**ok**\n**ok**\n**ok**\n"; got != want {
		t.Errorf("out = %q, want %q", got, want)
	}
}

func TestPlainChatOnDumbTerminal(t *testing.T) {
	t.Parallel()
	var d desk
	o := d.options(bus.Outbound{Kind: bus.Delta, Text: "h\xc3"}, bus.Outbound{Kind: bus.Delta, Text: "\xa9 \xc2"},
		bus.Outbound{Kind: bus.Delta, Text: "\x9b1m"}, bus.Outbound{Kind: bus.Final, Streamed: true, Text: "x"}, errors.New("late\ntrouble"))
	o.Console.In = strings.NewReader("hi\n:q\nnever\n")
	o.Console.InTTY, o.Console.OutTTY, o.Getenv = true, true, dumb
	o.Banner = Banner{Name: "bot", Icon: "*", Model: "m", Hints: []string{"hint"}}
	if err := Chat(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	want := "* bot m\nhint\nYou: hé \\x9b1m\nerror: late\nYou: "
	if diff := cmp.Diff(want, d.out.String()); diff != "" {
		t.Errorf("out (-want +got):\n%s", diff)
	}
	if len(d.asked) != 1 {
		t.Errorf("asked %d times, want once", len(d.asked))
	}
}

func TestRoute(t *testing.T) {
	t.Parallel()
	for session, want := range map[string]bus.Route{
		"":                  {Channel: "cli", ChatID: "direct"},
		"cli:direct":        {Channel: "cli", ChatID: "direct"},
		"work":              {Channel: "cli", ChatID: "work"},
		"telegram:12:topic": {Channel: "telegram", ChatID: "12:topic"},
	} {
		o := Options{Session: session}
		if got := o.route(); got != want {
			t.Errorf("route of %q = %+v, want %+v", session, got, want)
		}
	}
}
