package subject

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/web"
)

// export returns a conversation as a file: Markdown for people, or the lines that
// every version of nanobot reads. Credentials are taken out of both.
func (c Conversations) export(ctx context.Context, r *http.Request) (any, error) {
	now, err := c.Now(ctx)
	if err != nil {
		return nil, err
	}

	out := exported{key: r.PathValue("key"), sessions: now.Sessions, secrets: now.Secrets}
	if _, err := now.Sessions.Metadata(ctx, out.key); err != nil {
		return nil, err
	}

	name := text.SafeName(out.key)
	switch format := r.URL.Query().Get("format"); format {
	case "", "md":
		return web.Download{Name: name + ".md", MIME: "text/markdown; charset=utf-8", Write: func(w io.Writer) error { return out.markdown(phrase.InZone(ctx, now.Location), w) }}, nil
	case "jsonl":
		return web.Download{Name: name + ".jsonl", MIME: "application/jsonl", Write: func(w io.Writer) error { return out.lines(ctx, w) }}, nil
	default:
		return nil, web.Refuse(http.StatusBadRequest, "format can be md or jsonl, not %.40q", format)
	}
}

// exported is a conversation that becomes a file.
type exported struct {
	key      string
	sessions *session.Store
	secrets  *httpsafe.Registry
}

// lines writes what is stored of it.
func (e exported) lines(ctx context.Context, w io.Writer) error {
	lines := &redacting{w: w, secrets: e.secrets}
	if err := e.sessions.Export(ctx, e.key, lines); err != nil {
		return err
	}
	return lines.flush()
}

// markdown writes what people see of it.
func (e exported) markdown(ctx context.Context, w io.Writer) error {
	if _, err := fmt.Fprintf(w, "# %s\n", e.secrets.Redact(e.key)); err != nil {
		return err
	}

	for rec, err := range e.sessions.Records(ctx, e.key) {
		if err != nil {
			return err
		}
		if !visible(&session.Item{Record: rec}) {
			continue
		}

		who := "You"
		if rec.Role == llm.Assistant || rec.Mark() {
			who = "nanobot"
		}

		if _, err := fmt.Fprintf(w, "\n## %s, %s\n\n%s\n", who, phrase.Moment(ctx, rec.Time), strings.TrimSpace(e.secrets.Redact(rec.Display()))); err != nil {
			return err
		}

		for _, c := range rec.ToolCalls {
			if _, err := fmt.Fprintf(w, "\n- %s `%s`\n", c.Name, strings.ReplaceAll(text.Label(e.secrets.Redact(c.Arguments), 200), "`", "'")); err != nil {
				return err
			}
		}
	}

	return nil
}

// redacting takes credentials out of lines.
type redacting struct {
	w       io.Writer
	secrets *httpsafe.Registry
	rest    []byte
}

// Write implements io.Writer.
func (r *redacting) Write(p []byte) (int, error) {
	r.rest = append(r.rest, p...)
	for {
		n := bytes.IndexByte(r.rest, '\n') + 1
		if n == 0 {
			return len(p), nil
		}
		if _, err := io.WriteString(r.w, r.secrets.Redact(string(r.rest[:n]))); err != nil {
			return 0, err
		}
		r.rest = r.rest[n:]
	}
}

func (r *redacting) flush() error {
	_, err := io.WriteString(r.w, r.secrets.Redact(string(r.rest)))
	return err
}
