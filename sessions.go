package nanobot

import (
	"context"
	"io"
	"iter"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/run/app"
)

// ErrNoSession is wrapped when there is no conversation of that name.
var ErrNoSession = session.ErrNotFound

// SessionInfo describes a conversation without its messages.
type SessionInfo = session.Info

// Said is one message of a conversation as people see it.
type Said struct {
	Role   string // user, assistant or tool; system for the mark of an interrupted turn
	Text   string
	At     time.Time
	Sender string   // of a user message
	Media  []string // paths of files that came with it
	Tools  []string // names of the tools an assistant message called
}

// Sessions are the conversations on disk. Reading takes no locks: a turn may go
// on at the same time.
type Sessions struct {
	open func(context.Context) (*app.App, error)
}

// List describes all conversations, the last changed first. Those that cannot
// be read are in the error, which comes with the others.
func (s Sessions) List(ctx context.Context) ([]SessionInfo, error) {
	a, err := s.open(ctx)
	if err != nil {
		return nil, err
	}
	return a.Sessions.List(ctx)
}

// History yields the messages of a conversation, oldest first, without what
// the agent only says to itself.
func (s Sessions) History(ctx context.Context, key string) iter.Seq2[Said, error] {
	return func(yield func(Said, error) bool) {
		a, err := s.open(ctx)
		if err != nil {
			yield(Said{}, err)
			return
		}

		for r, err := range a.Sessions.Records(ctx, key) {
			if err != nil {
				yield(Said{}, err)
				return
			}
			if r.Internal || r.Hidden {
				continue
			}
			if !yield(said(r), nil) {
				return
			}
		}
	}
}

func said(r session.Record) Said {
	out := Said{
		Role: string(r.Role), Text: strings.TrimSpace(r.Display()), At: r.Time,
		Sender: r.SenderID, Media: r.Media,
	}
	switch {
	case r.Mark():
		out.Role = string(llm.System)
	case r.Role == llm.Assistant:
		for _, c := range r.ToolCalls {
			out.Tools = append(out.Tools, c.Name)
		}
	}

	return out
}

// Export writes a conversation as JSONL, in the form that older versions read.
func (s Sessions) Export(ctx context.Context, key string, w io.Writer) error {
	a, err := s.open(ctx)
	if err != nil {
		return err
	}
	return a.Sessions.Export(ctx, key, w)
}

// Delete stops a conversation and moves it to the archive folder.
func (s Sessions) Delete(ctx context.Context, key string) error {
	a, err := s.open(ctx)
	if err != nil {
		return err
	}
	found, err := a.DeleteSession(ctx, key)
	if err == nil && !found {
		return ErrNoSession
	}
	return err
}
