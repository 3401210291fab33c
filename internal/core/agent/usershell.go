package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/core/explain"
	"github.com/nanobot-go/nanobot/internal/core/memory"
	"github.com/nanobot-go/nanobot/internal/core/prompt"
	"github.com/nanobot-go/nanobot/internal/core/runner"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// eventShell marks what is kept of a command that the owner typed.
const eventShell = "user_shell"

// textShellCut is the answer to a command whose end nobody saw.
const textShellCut = "The program was stopped while this command ran. It may have taken effect, so it was not run again."

// shellTurn is a turn without a model.
type shellTurn struct{ turn *turn }

// run runs a command line that the owner typed, without a model. That it
// was asked for is on the disk before it begins, so it never runs twice; what
// came out is for the person and, with the next turn, for the model.
func (t shellTurn) run(ctx context.Context, seen bool) error {
	in := t.turn.env.in
	if seen {
		return t.again(ctx)
	}
	if why := t.refused(); why != "" {
		t.turn.reply(Say(why))
		return nil
	}
	t.turn.enterProject(ctx)
	line := strings.TrimSpace(in.Text)
	err := t.turn.sess.Append(session.Record{
		Message: llm.Message{Role: llm.User, Content: llm.Text("!" + t.turn.deps.secrets.Redact(line))}, Time: in.At,
		InboundID: in.ID, SenderID: in.SenderID, TurnID: t.turn.id, Command: true, Event: eventShell,
	})
	if err == nil {
		err = t.turn.sess.Sync(context.WithoutCancel(ctx))
	}
	if err != nil {
		return fmt.Errorf("keep the command: %w", err)
	}
	res := t.exec(ctx, line)
	if err := t.keep(ctx, line, t.turn.id, res); err != nil {
		return err
	}
	if cause := context.Cause(ctx); cause != nil {
		return stopError(cause)
	}
	t.reply(explain.CodeBlock(t.turn.deps.secrets.Redact(res.Content.String())), t.turn.id)
	return nil
}

// refused says why a message is not run as a command.
func (t shellTurn) refused() string {
	switch in := t.turn.env.in; {
	case in.Scope != "" || in.Untrusted || in.Event != "":
		return phrase.In(in.Language, "Only an owner can run commands, in a direct chat.")
	case in.Route.Channel != "websocket":
		return phrase.In(in.Language, "Commands cannot be run from here.")
	case t.turn.deps.userShell() == nil:
		return phrase.In(in.Language, "Commands are switched off; tools.exec.enable switches them on.")
	}
	return ""
}

// exec runs the command and shows that it does.
func (t shellTurn) exec(ctx context.Context, line string) tool.Result {
	c := tool.Call{
		ID: "shell-" + t.turn.id, Name: "exec", Route: t.turn.env.in.Route, SessionKey: t.turn.key, Project: t.turn.folder.project,
		SenderID: t.turn.env.in.SenderID, Person: t.turn.env.in.Person(), TurnID: t.turn.id, UserText: line, Publish: t.turn.progress.publish,
	}
	c.Input, _ = json.Marshal(map[string]string{"command": line}) // texts
	h, begun := t.turn.progress.hooks(), time.Now()
	_ = h.BeforeTool(ctx, c) // only shows it
	res, err := t.turn.deps.userShell()(ctx, c, line)
	if err != nil {
		res = tool.Fail(tool.Internal, "%v", err)
	}
	h.AfterTool(ctx, c, res, time.Since(begun))
	return res
}

// userShell is what runs the command lines that the owner types; nil if there are no
// commands.
func (d *deps) userShell() func(ctx context.Context, c tool.Call, command string) (tool.Result, error) {
	if d.opts.Guard == nil {
		return nil
	}
	return d.opts.Guard.UserShell()
}

// keep keeps what came out, for people and for the model, in one write.
func (t shellTurn) keep(ctx context.Context, line, turn string, res tool.Result) error {
	out := t.turn.deps.secrets.Redact(res.Content.String())
	about := &session.RuntimeContext{Version: 1, Sources: []string{"time", "route"}}
	told := prompt.EscapeMarkers(out)
	if res.Untrusted {
		about.Sources = append(about.Sources, memory.SourceForeign)
		told = runner.Fence(llm.Text(out), turn, eventShell).Text
	}
	where := ""
	if t.turn.folder.project.Dir != "" {
		where = " in " + prompt.Path(t.turn.folder.project.Dir)
	}
	note := fmt.Sprintf("[I ran a command myself%s:]\n$ %s\n\n[It printed:]\n%s", where, prompt.EscapeMarkers(t.turn.deps.secrets.Redact(line)), told)
	rec := func(role llm.Role, text string) session.Record {
		return session.Record{Message: llm.Message{Role: role, Content: llm.Text(text)}, TurnID: turn, Event: eventShell}
	}
	shown, asked, noted := rec(llm.Assistant, explain.CodeBlock(out)), rec(llm.User, note), rec(llm.Assistant, "Noted.")
	shown.Command, asked.Internal, noted.Internal, asked.Runtime = true, true, true, about
	err := t.turn.sess.Append(shown, asked, noted)
	if err == nil {
		err = t.turn.sess.Sync(context.WithoutCancel(ctx))
	}
	if err != nil {
		return fmt.Errorf("keep what the command printed: %w", err)
	}
	return nil
}

// again answers a command that an earlier process began: with what it
// printed, or with the news that nobody knows.
func (t shellTurn) again(ctx context.Context) error {
	recs := t.turn.sess.Messages()
	at := slices.IndexFunc(recs, func(r session.Record) bool { return r.InboundID == t.turn.env.in.ID })
	if at < 0 || recs[at].Event != eventShell {
		return nil // it was answered long ago
	}
	turn := recs[at].TurnID
	answer := slices.IndexFunc(recs, func(r session.Record) bool {
		return r.TurnID == turn && r.Event == eventShell && r.Command && r.Role == llm.Assistant
	})
	if answer >= 0 {
		t.reply(recs[answer].Content.String(), turn)
		return nil
	}
	t.turn.enterProject(ctx)
	res := tool.Fail(tool.Cancelled, "%s", textShellCut)
	if err := t.keep(ctx, strings.TrimSpace(t.turn.env.in.Text), turn, res); err != nil {
		return err
	}
	t.reply(explain.CodeBlock(res.Content.String()), turn)
	return nil
}

func (t shellTurn) reply(text, turn string) {
	t.turn.env.emit(bus.Outbound{
		Kind: bus.Final, Route: t.turn.env.in.Route, ReplyTo: t.turn.env.in.Route.MessageID, Text: t.turn.deps.secrets.Redact(text), Meta: t.turn.env.in.Meta,
		Turn: &bus.Turn{
			ID: turn, SessionKey: t.turn.key, StopReason: string(runner.Completed), Tools: []string{"exec"},
			DurationMS: t.turn.deps.now().Sub(t.turn.begun).Milliseconds(),
		},
	})
}
