package turn

import (
	"cmp"
	"context"

	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/core/prompt"
	"github.com/nanobot-go/nanobot/internal/core/runner"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/core/transcript"
	"github.com/nanobot-go/nanobot/internal/core/turn/owntool"
	"github.com/nanobot-go/nanobot/internal/llm"
)

// ResumePolicy says what becomes of a message from a queue whose turn was
// interrupted by the end of the program.
type ResumePolicy string

// The policies.
const (
	ResumeTurn   ResumePolicy = "resume" // the turn is taken up again; also the meaning of ""
	ResumeNotify ResumePolicy = "notify" // the sender is told, and can ask again
	ResumeOff    ResumePolicy = "off"    // nothing happens
)

// resumeMax is how often a message is worked on before it is given up: it may
// be the reason why the program ends. It is generous, because the end comes in
// rows when a machine is in trouble, and takes along many messages that have
// nothing to do with it.
const resumeMax = 8

// What people and the model read about interrupted turns.
const (
	textResume  = "[The program was restarted while the last message was being worked on. Go on from where this conversation stands and answer that message. Calls marked as interrupted may have taken effect: check before repeating them.]"
	textNotify  = "The program was restarted before this was answered. Send \"continue\" to take it up again."
	textGivenUp = "I was interrupted several times while working on this and have left it. Ask again if you still need it."
	textNotKept = "This message was handled before, and the conversation does not hold an answer to it any more. Send it as a new message if you still need one."
)

// Resumption is what becomes of a message that an earlier process worked on.
type Resumption int

// The outcomes of Turn.Resume.
const (
	TakenUp   Resumption = iota // its turn goes on
	AllSaid                     // it was answered, or its sender was told that it is not
	LeftAlone                   // nothing is done about it
)

// Resume decides about a message that is in the session already, because an
// earlier process worked on it.
func (t *Turn) Resume() Resumption {
	p := transcript.FindPast(t.sess.Messages(), t.msg.In.ID)
	switch {
	case p.Answered || p.Tries >= resumeMax || t.engine.opts.Turns.Resume == ResumeNotify:
		if out, ok := t.engine.stored(t.msg, p); ok {
			out.Turn.ID = cmp.Or(p.Turn, t.id)
			t.msg.Sink.Emit(out)
		}
		return AllSaid
	case t.engine.opts.Turns.Resume == ResumeOff:
		return LeftAlone
	}

	t.resumed = true
	return TakenUp
}

// stored is the final reply to a message that nothing more is done about, and false
// if it does not go out.
func (e *Engine) stored(m Message, p transcript.Past) (bus.Outbound, bool) {
	turn := &bus.Turn{ID: p.Turn, SessionKey: m.Key, StopReason: string(runner.Completed)}
	var text string
	plain := true
	switch {
	case p.Answered && p.Reply != nil:
		text, plain = *p.Reply, false
		if p.Failed {
			turn.Error = text
		}

	case p.Answered:
		return m.final("", true, turn), false
	case p.Tries >= resumeMax:
		text = phrase.In(m.In.Language, textGivenUp)
		turn.Error = text
	case e.opts.Turns.Resume == ResumeNotify:
		text = phrase.In(m.In.Language, textNotify)
		turn.Error = text
	default:
		return m.final("", true, turn), false
	}

	if turn.Error != "" {
		turn.StopReason = "error"
	}
	return m.final(text, plain, turn), true
}

// Recall is the final reply to a message that was completed before, for a
// client that says it again. It has no text if the message joined the turn of
// another one.
func (e *Engine) Recall(ctx context.Context, in bus.Inbound) bus.Outbound {
	key := e.KeyOf(in)
	var recs []session.Record
	for r, err := range e.opts.Sessions.Records(ctx, key) {
		if err != nil {
			e.log.WarnContext(ctx, "look for the answer to a message", "session", key, "id", in.ID, "err", err)
			break
		}
		recs = append(recs, r)
	}

	p := transcript.FindPast(recs, in.ID)
	out, ok := e.stored(Message{In: in, Key: key}, p)
	if joined := p.Answered && p.Tries > 0; !ok && !joined {
		out.Text = phrase.In(in.Language, textNotKept)
	}

	out.ID = bus.FinalID(in.ID)
	return out
}

// userMessage is a message as it is kept and as it is sent.
func (t *Turn) userMessage(ctx context.Context, in bus.Inbound) (session.Record, llm.Message) {
	about := prompt.About{Folder: t.folder.lines(t.sess, t.engine.opts.Workspace)}
	if g, active := owntool.Goal(t.sess); active && !t.goal.open {
		about.Goal, about.Foreign = prompt.Objective(g), g.Untrusted
		t.foreign = t.foreign || g.Untrusted && !in.Foreign()
	}
	return t.engine.prompt.Message(ctx, in, about)
}

// question is the message the turn begins with: what came in, or the word to
// go on.
func (t *Turn) question(ctx context.Context) (session.Record, llm.Message) {
	in := t.msg.In
	if t.resumed {
		in.Text, in.Media, in.At = textResume, nil, t.engine.now()
	}
	rec, msg := t.userMessage(ctx, in)
	rec.Internal = rec.Internal || t.resumed
	return rec, msg
}
