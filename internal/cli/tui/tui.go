// Package tui is the terminal side of a conversation: it hides how keys are
// read, how lines are edited, and how a streamed answer is drawn.
//
// Chat is the interactive line mode. Finished text scrolls up like any program's
// output; only a small area below it (the line still arriving, the status, the
// input) is redrawn, so the scroll-back stays intact and can be copied. Text
// entered while a turn runs is handed to the agent at once, which feeds it into
// that turn. OneShot prints a single turn. A renderer turns streamed Markdown
// into terminal lines.
//
// Escape sequences are written only to a terminal that wants them: with a pipe
// on either side or TERM=dumb, both fall back to plain text. With NO_COLOR Chat
// edits and draws without colours, and OneShot writes plain text.
//
// Neither function keeps state between calls; each must have the terminal for
// itself while it runs. The agent is known only through the funcs in Options.
package tui

import (
	"context"
	"crypto/rand"
	"io"
	"iter"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/bus"
)

// Options configures Chat and OneShot. Only Ask and Console are required.
type Options struct {
	// Ask sends one message and yields what comes back until the turn is over.
	// Chat calls it again while a turn runs when the user types on; such a
	// follow-up may yield nothing if the running turn answers it.
	Ask func(ctx context.Context, in bus.Inbound) iter.Seq2[bus.Outbound, error]
	// Stop ends the running turn of a session. Without it the context given to
	// Ask is cancelled instead.
	Stop func(ctx context.Context, session string)
	// Explain puts an error into words for the user; hint may be empty. Without
	// it the first line of the error is shown.
	Explain func(err error) (text, hint string)
	// Late delivers messages that belong to no question, such as the report of
	// a background task. They appear above the prompt. May be nil.
	Late <-chan bus.Outbound
	// Shown is called when a message of Late is on the screen. May be nil.
	Shown func(out bus.Outbound)
	// Interrupts delivers SIGINT while the terminal is in its normal mode, where
	// Ctrl-C is not a key press. May be nil.
	Interrupts <-chan os.Signal

	changed <-chan os.Signal // what happened to the terminal; Chat fills it in for a real one

	Console Console
	Getenv  func(string) string // nil means os.Getenv

	Language string    // of package phrase; of what the chat itself says
	Session  string    // "channel:chat", or a chat of channel cli; empty means cli:direct
	History  string    // file with earlier input, created with mode 0600; empty keeps none
	Commands []Command // offered by Tab and listed below the input
	Banner   Banner

	Markdown      bool // render Markdown on a terminal
	ShowReasoning bool
	ShowTools     bool

	// Message, Media and JSON are for OneShot only. JSON writes every Outbound
	// as one line of JSON and nothing else.
	Message string
	Media   []bus.Media
	JSON    bool
}

// Command is a slash command as the user meets it.
type Command struct {
	Name string // with its slash: "/model"
	Args string // shape of the arguments, such as "[name]"; empty if it takes none
	Help string // a few words
}

// Banner introduces the bot.
type Banner struct {
	Name, Icon, Model string
	Hints             []string // lines shown under the title when Chat starts
}

// Console is the place the user sits at. Stdio makes one of real files; tests
// and other front ends fill it in themselves.
type Console struct {
	In                    io.Reader
	Out, Err              io.Writer
	InTTY, OutTTY, ErrTTY bool
	Size                  func() (columns, rows int) // of Out; nil means 80 by 24
}

// Stdio describes a console made of three files.
func Stdio(in, out, errs *os.File) Console {
	tty := func(f *os.File) bool { return f != nil && term.IsTerminal(int(f.Fd())) }
	return Console{
		In: in, Out: out, Err: errs,
		InTTY: tty(in), OutTTY: tty(out), ErrTTY: tty(errs),
		Size: func() (int, int) {
			w, h, err := term.GetSize(int(out.Fd()))
			if err != nil {
				return 0, 0
			}
			return w, h
		},
	}
}

// size returns the size of the terminal, with sane values where it is unknown.
func (c Console) size() (columns, rows int) {
	if c.Size != nil {
		columns, rows = c.Size()
	}
	if columns <= 0 {
		columns = 80
	}
	if rows <= 0 {
		rows = 24
	}
	return columns, rows
}

// words returns a sentence of the catalogue in the user's language.
func (o *Options) words(english string, args ...any) string {
	return phrase.In(o.Language, english, args...)
}

// fancy reports whether the cursor of Out may be moved.
func (o *Options) fancy() bool { return o.Console.OutTTY && o.env("TERM") != "dumb" }

// noColour reports whether the user wants no colours; other attributes stay.
func (o *Options) noColour() bool { return o.env("NO_COLOR") != "" }

func (o *Options) env(name string) string {
	if o.Getenv == nil {
		return os.Getenv(name)
	}
	return o.Getenv(name)
}

// route returns the conversation this console takes part in.
func (o *Options) route() bus.Route { return Route(o.Session) }

// Route returns the chat that Options.Session means.
func Route(session string) bus.Route {
	if session == "" {
		return bus.Route{Channel: "cli", ChatID: "direct"}
	}
	if channel, chat, ok := strings.Cut(session, ":"); ok {
		return bus.Route{Channel: channel, ChatID: chat}
	}
	return bus.Route{Channel: "cli", ChatID: session}
}

func (o *Options) inbound(text string, stream bool) bus.Inbound {
	return bus.Inbound{
		ID: rand.Text(), Route: o.route(), SenderID: "user", Text: text, WantsStream: stream,
	}
}

func (o *Options) shown(out bus.Outbound) {
	if o.Shown != nil {
		o.Shown(out)
	}
}

func (o *Options) explain(err error) (text, hint string) {
	if o.Explain != nil {
		text, hint = o.Explain(err)
		return firstLine(text), firstLine(hint)
	}
	return firstLine(err.Error()), ""
}

// Chat talks with the user until they leave, the input ends (both nil) or ctx
// is cancelled (its error). With a terminal on both sides it edits lines and
// redraws; otherwise it reads one message per line and writes plain text.
//
// Ctrl-C ends the running turn; a second one within two seconds leaves. At an
// empty prompt it says how to leave, and again leaves. Ctrl-D leaves.
func Chat(ctx context.Context, o Options) error {
	if !o.fancy() || !o.Console.InTTY {
		return plainChat(ctx, &o)
	}
	restore, err := rawMode(o.Console)
	if err != nil { // a console that cannot be switched still chats
		return plainChat(ctx, &o)
	}
	return newChat(&o, restore).run(ctx)
}

// isFarewell reports whether a line of input means leaving.
func isFarewell(s string) bool {
	switch strings.ToLower(strings.TrimSpace(s)) {
	case "exit", "quit", "/exit", "/quit", ":q":
		return true
	}
	return false
}
