package email

import (
	"context"
	"encoding/json"

	"github.com/emersion/go-smtp"

	channel "github.com/nanobot-go/nanobot/internal/chat"
)

// probe opens the mailbox and logs in where mail is sent, and does nothing there.
func probe(ctx context.Context, d channel.Deps, section json.RawMessage) (channel.Report, error) {
	p, err := newPost(d, section)
	if err != nil {
		return channel.Report{}, err
	}
	r := channel.Report{Identity: p.own[0]}
	note := func(name string, err error) {
		c := channel.Check{Name: name, OK: err == nil}
		if err != nil {
			c.Detail = channel.Explain(err).Error()
		}
		r.Checks = append(r.Checks, c)
	}
	m, err := p.connect(ctx)
	if err == nil {
		m.close()
	}
	note("imap", err)
	note("smtp", p.submission(ctx, func(*smtp.Client) error { return nil }))
	return r, nil
}
