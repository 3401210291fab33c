package subject

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/web"
)

// export is a conversation as a file: Markdown for people, or the lines that
// every version of nanobot reads. Credentials are taken out of both.
func (d *API) export(ctx context.Context, r *http.Request) (any, error) {
	h, err := d.Backend(ctx)
	if err != nil {
		return nil, err
	}
	key := r.PathValue("key")
	if _, err := h.Sessions.Metadata(ctx, key); err != nil {
		return nil, err
	}
	name := text.SafeName(key)
	switch format := r.URL.Query().Get("format"); format {
	case "", "md":
		return web.Download{Name: name + ".md", MIME: "text/markdown; charset=utf-8", Write: func(w io.Writer) error { return h.markdown(ctx, key, w) }}, nil
	case "jsonl":
		return web.Download{Name: name + ".jsonl", MIME: "application/jsonl", Write: func(w io.Writer) error {
			lines := &redacting{w: w, h: &h}
			if err := h.Sessions.Export(ctx, key, lines); err != nil {
				return err
			}
			return lines.flush()
		}}, nil
	default:
		return nil, web.Refuse(http.StatusBadRequest, "format can be md or jsonl, not %.40q", format)
	}
}

// markdown writes what people see of a conversation.
func (h *Backend) markdown(ctx context.Context, key string, w io.Writer) error {
	if _, err := fmt.Fprintf(w, "# %s\n", h.redact(key)); err != nil {
		return err
	}
	for rec, err := range h.Sessions.Records(ctx, key) {
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
		if _, err := fmt.Fprintf(w, "\n## %s, %s\n\n%s\n", who, rec.Time.Local().Format("2006-01-02 15:04"), strings.TrimSpace(h.redact(rec.Display()))); err != nil {
			return err
		}
		for _, c := range rec.ToolCalls {
			if _, err := fmt.Fprintf(w, "\n- %s `%s`\n", c.Name, strings.ReplaceAll(text.Label(h.redact(c.Arguments), 200), "`", "'")); err != nil {
				return err
			}
		}
	}
	return nil
}

// redacting takes credentials out of lines.
type redacting struct {
	w    io.Writer
	h    *Backend
	rest []byte
}

// Write implements io.Writer.
func (r *redacting) Write(p []byte) (int, error) {
	r.rest = append(r.rest, p...)
	for {
		n := bytes.IndexByte(r.rest, '\n') + 1
		if n == 0 {
			return len(p), nil
		}
		if _, err := io.WriteString(r.w, r.h.redact(string(r.rest[:n]))); err != nil {
			return 0, err
		}
		r.rest = r.rest[n:]
	}
}

func (r *redacting) flush() error {
	_, err := io.WriteString(r.w, r.h.redact(string(r.rest)))
	return err
}
