package turn

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

// textShellCut is the answer to a command whose end was not seen.
const textShellCut = "The program was stopped while this command ran. It may have taken effect, so it was not run again."

// Shell runs a command line that the owner typed, without a model. That it
// was asked for is on the disk before it begins, so it never runs twice; what
// came out is for the person and, with the next turn, for the model.
func (t *Turn) Shell(ctx context.Context, seen bool) error {
	in := t.msg.In
	if seen {
		return t.shellAgain(ctx)
	}
	if why := t.shellRefused(); why != "" {
		t.Reply(why, true)
		return nil
	}

	t.enterProject(ctx)
	line := strings.TrimSpace(in.Text)
	err := t.sess.Append(session.Record{
		Message: llm.Message{Role: llm.User, Content: llm.Text("!" + line)}, Time: in.At,
		InboundID: in.ID, SenderID: in.SenderID, TurnID: t.id, Command: true, Event: eventShell,
	})
	if err == nil {
		err = t.sess.Sync(context.WithoutCancel(ctx))
	}

	if err != nil {
		return fmt.Errorf("keep the command: %w", err)
	}

	res := t.runShell(ctx, line)
	if err := t.keepShell(ctx, line, t.id, res); err != nil {
		return err
	}
	if cause := context.Cause(ctx); cause != nil {
		return StopError(cause)
	}

	t.shellReply(explain.CodeBlock(res.Content.String()), t.id)
	return nil
}

// shellRefused says why a message is not run as a command.
func (t *Turn) shellRefused() string {
	switch in := t.msg.In; {
	case in.Scope != "" || in.Untrusted || in.Event != "":
		return phrase.In(in.Language, "Only an owner can run commands, in a direct chat.")
	case in.Route.Channel != "websocket":
		return phrase.In(in.Language, "Commands cannot be run from here.")
	case t.engine.userShell() == nil:
		return phrase.In(in.Language, "Commands are switched off; tools.exec.enable switches them on.")
	}
	return ""
}

// runShell runs the command and shows that it does.
func (t *Turn) runShell(ctx context.Context, line string) tool.Result {
	c := tool.Call{
		ID: "shell-" + t.id, Name: "exec", Route: t.msg.In.Route, SessionKey: t.key, Project: t.folder.project,
		SenderID: t.msg.In.SenderID, Person: t.msg.In.Person(), TurnID: t.id, UserText: line, Publish: t.progress.publish,
	}
	c.Input, _ = json.Marshal(map[string]string{"command": line}) // texts
	h, begun := t.progress.hooks(), time.Now()
	_ = h.BeforeTool(ctx, c) // only shows it
	res, err := t.engine.userShell()(ctx, c, line)
	if err != nil {
		res = tool.Fail(tool.Internal, "%v", err)
	}

	h.AfterTool(ctx, c, res, time.Since(begun))
	res.Content = llm.Text(t.engine.secrets.Redact(res.Content.String())) // no run of the runner has seen it
	return res
}

// userShell is what runs the command lines that the owner types; nil if there are no
// commands.
func (e *Engine) userShell() func(ctx context.Context, c tool.Call, command string) (tool.Result, error) {
	if e.opts.Guard == nil {
		return nil
	}
	return e.opts.Guard.UserShell()
}

// keepShell keeps what came out, for people and for the model, in one write.
func (t *Turn) keepShell(ctx context.Context, line, turn string, res tool.Result) error {
	out := res.Content.String()
	about := &session.RuntimeContext{Version: 1, Sources: []string{"time", "route"}}
	told := prompt.EscapeMarkers(out)
	if res.Untrusted {
		about.Sources = append(about.Sources, memory.SourceForeign)
		told = runner.Fence(llm.Text(out), turn, eventShell).Text
	}

	where := ""
	if t.folder.project.Dir != "" {
		where = " in " + prompt.Path(t.folder.project.Dir)
	}

	line = t.engine.secrets.Redact(line) // before markers are escaped, which may be a part of one
	note := fmt.Sprintf("[I ran a command myself%s:]\n$ %s\n\n[It printed:]\n%s", where, prompt.EscapeMarkers(line), told)
	rec := func(role llm.Role, text string) session.Record {
		return session.Record{Message: llm.Message{Role: role, Content: llm.Text(text)}, TurnID: turn, Event: eventShell}
	}
	shown, asked, noted := rec(llm.Assistant, explain.CodeBlock(out)), rec(llm.User, note), rec(llm.Assistant, "Noted.")
	shown.Command, asked.Internal, noted.Internal, asked.Runtime = true, true, true, about
	err := t.sess.Append(shown, asked, noted)
	if err == nil {
		err = t.sess.Sync(context.WithoutCancel(ctx))
	}

	if err != nil {
		return fmt.Errorf("keep what the command printed: %w", err)
	}
	return nil
}

// shellAgain answers a command that an earlier process began: with what it
// printed, or with the news that it is not known.
func (t *Turn) shellAgain(ctx context.Context) error {
	recs := t.sess.Messages()
	at := slices.IndexFunc(recs, func(r session.Record) bool { return r.InboundID == t.msg.In.ID })
	if at < 0 || recs[at].Event != eventShell {
		return nil // it was answered long ago
	}

	turn := recs[at].TurnID
	answer := slices.IndexFunc(recs, func(r session.Record) bool {
		return r.TurnID == turn && r.Event == eventShell && r.Command && r.Role == llm.Assistant
	})
	if answer >= 0 {
		t.shellReply(recs[answer].Content.String(), turn)
		return nil
	}

	t.enterProject(ctx)
	res := tool.Fail(tool.Cancelled, "%s", textShellCut)
	if err := t.keepShell(ctx, strings.TrimSpace(t.msg.In.Text), turn, res); err != nil {
		return err
	}

	t.shellReply(explain.CodeBlock(res.Content.String()), turn)
	return nil
}

func (t *Turn) shellReply(text, turn string) {
	t.msg.Sink.Emit(bus.Outbound{
		Kind: bus.Final, Route: t.msg.In.Route, ReplyTo: t.msg.In.Route.MessageID, Text: text, Meta: t.msg.In.Meta,
		Turn: &bus.Turn{
			ID: turn, SessionKey: t.key, StopReason: string(runner.Completed), Tools: []string{"exec"},
			DurationMS: t.engine.now().Sub(t.begun).Milliseconds(),
		},
	})
}
