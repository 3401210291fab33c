package email

import (
	"context"
	"encoding/json"

	"github.com/emersion/go-smtp"

	"github.com/nanobot-go/nanobot/internal/chat"
)

// probe opens the mailbox and logs in where mail is sent, and does nothing there.
func probe(ctx context.Context, d chat.Deps, section json.RawMessage) (chat.Report, error) {
	p, err := newPost(d, section)
	if err != nil {
		return chat.Report{}, err
	}

	r := chat.Report{Identity: p.own[0]}
	note := func(name string, err error) {
		c := chat.Check{Name: name, OK: err == nil}
		if err != nil {
			c.Detail = chat.Explain(err).Error()
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
