package session

import (
	"slices"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
)

// redacted is the record without secrets in what was said and done. It is the door to
// what is kept: every record passes it on its way to the log and to memory. Signed
// thoughts stay as they are, since their provider takes them back unmodified only.
func (r Record) redacted(secrets *httpsafe.Registry) Record {
	clean := secrets.Redact
	r.Content.Text = clean(r.Content.Text)
	for i, b := range r.Content.Blocks {
		if text := clean(b.Text); text != b.Text {
			r.Content.Blocks = slices.Clone(r.Content.Blocks)
			r.Content.Blocks[i].Text = text
		}
	}

	for i, c := range r.ToolCalls {
		if args := clean(c.Arguments); args != c.Arguments {
			r.ToolCalls = slices.Clone(r.ToolCalls)
			r.ToolCalls[i].Arguments = args
		}
	}

	r.Failure = clean(r.Failure)
	if r.Runtime != nil && r.Runtime.Suffix != "" {
		about := *r.Runtime
		about.Suffix = clean(about.Suffix) // it is found again at the end of the content
		r.Runtime = &about
	}
	return r
}
