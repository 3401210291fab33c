package dingtalk

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"

	"github.com/nanobot-go/nanobot/internal/base/socket"
	"github.com/nanobot-go/nanobot/internal/chat"
)

// The codes that a frame is confirmed with.
const (
	codeOK      = 200
	codeUnknown = 404
)

// frame is one of the stream.
type frame struct {
	Type    string `json:"type"`
	Headers struct {
		MessageID string `json:"messageId"`
		Topic     string `json:"topic"`
	} `json:"headers"`
	Data string `json:"data"`
}

// stream is the connection of one Run.
type stream struct {
	bot *bot
	rc  *receiver
}

var errDisconnect = errors.New("DingTalk asks for another connection")

// dial asks for a ticket, which is good for one connection.
func (s *stream) dial(ctx context.Context) (socket.Target, error) {
	p, err := s.bot.calls.place(ctx)
	if err = explained(err, s.bot.deps.Name); chat.IsFatal(err) {
		return socket.Target{}, socket.Fatal(err)
	}
	if err != nil {
		return socket.Target{}, err
	}
	return socket.Target{URL: p.Endpoint + "?ticket=" + url.QueryEscape(p.Ticket)}, nil
}

// open says that we are in: the ticket was the login.
func (s *stream) open(context.Context, *socket.Conn) error {
	s.bot.deps.Ready(s.bot.o.ClientID, nil)
	return nil
}

// receive handles a frame and confirms it. One that is not confirmed comes again.
func (s *stream) receive(ctx context.Context, c *socket.Conn, raw socket.Frame) error {
	var f frame
	if err := json.Unmarshal(raw.Data, &f); err != nil {
		s.rc.once.Warn(ctx, "frame", "a frame of the stream cannot be read", "err", err)
		return nil
	}

	switch {
	case f.Type == "SYSTEM" && f.Headers.Topic == "disconnect":
		return errors.Join(s.confirm(ctx, c, f, codeOK, f.Data), socket.After(0, errDisconnect))
	case f.Type == "SYSTEM":
		return s.confirm(ctx, c, f, codeOK, f.Data)
	case f.Type == "CALLBACK" && f.Headers.Topic == messageTopic:
		if s.rc.receive(ctx, f) {
			return s.confirm(ctx, c, f, codeOK, `{"response":"OK"}`)
		}
		return nil

	case f.Type == "CALLBACK" || f.Type == "EVENT":
		return s.confirm(ctx, c, f, codeUnknown, "{}")
	}

	return nil
}

func (s *stream) confirm(ctx context.Context, c *socket.Conn, f frame, code int, data string) error {
	message := "OK"
	if code != codeOK {
		message = "not handled"
	}

	answer, err := json.Marshal(map[string]any{
		"code": code, "message": message, "data": data,
		"headers": map[string]string{"contentType": "application/json", "messageId": f.Headers.MessageID},
	})
	if err != nil {
		return err
	}
	return c.Send(ctx, socket.Frame{Data: answer})
}

func (s *stream) lost(err error) error {
	if !errors.Is(err, errDisconnect) {
		s.bot.deps.Ready(s.bot.o.ClientID, err)
	}
	return err
}
