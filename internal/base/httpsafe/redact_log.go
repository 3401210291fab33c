package httpsafe

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/url"
)

// Handler passes log records on to next without credentials: the message, the
// attributes and everything inside groups are scrubbed, texts under names like
// "token" are hidden whatever they hold, and addresses with credentials become
// their origin. Values registered later are found from then on.
func (r *Registry) Handler(next slog.Handler) slog.Handler { return &logHandler{r, next} }

type logHandler struct {
	r    *Registry
	next slog.Handler
}

// Enabled implements slog.Handler.
func (h *logHandler) Enabled(ctx context.Context, l slog.Level) bool { return h.next.Enabled(ctx, l) }

// Handle implements slog.Handler.
func (h *logHandler) Handle(ctx context.Context, rec slog.Record) error {
	out := slog.NewRecord(rec.Time, rec.Level, h.r.Scrub(rec.Message), rec.PC)
	rec.Attrs(func(a slog.Attr) bool {
		out.AddAttrs(h.attr(a))
		return true
	})
	return h.next.Handle(ctx, out)
}

// WithAttrs implements slog.Handler.
func (h *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	clean := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		clean[i] = h.attr(a)
	}
	return &logHandler{h.r, h.next.WithAttrs(clean)}
}

// WithGroup implements slog.Handler.
func (h *logHandler) WithGroup(name string) slog.Handler {
	return &logHandler{h.r, h.next.WithGroup(h.r.Redact(name))}
}

func (h *logHandler) attr(a slog.Attr) slog.Attr {
	a.Key = h.r.Redact(a.Key)
	v := a.Value.Resolve()
	switch v.Kind() {
	case slog.KindString:
		a.Value = h.text(a.Key, v.String())
	case slog.KindGroup:
		group := make([]slog.Attr, 0, len(v.Group()))
		for _, g := range v.Group() {
			group = append(group, h.attr(g))
		}
		a.Value = slog.GroupValue(group...)

	case slog.KindAny:
		a.Value = h.any(a.Key, v)
	default:
		a.Value = v // numbers, times and switches
	}

	return a
}

func (h *logHandler) text(key, s string) slog.Value {
	if s != "" && SecretName(key) && key != "key" && key != "session_key" { // those name conversations
		return slog.StringValue(redacted)
	}
	return slog.StringValue(h.r.Scrub(s))
}

// any turns what prints itself into text and looks at all else in both forms a
// handler may write it in. What is clean stays as it is.
func (h *logHandler) any(key string, v slog.Value) slog.Value {
	switch t := v.Any().(type) {
	case nil:
		return v
	case *url.URL:
		return slog.StringValue(h.r.Scrub(fmt.Sprint(t)))
	case url.URL:
		return slog.StringValue(h.r.Scrub(t.String()))
	case error, fmt.Stringer:
		return h.text(key, fmt.Sprint(t)) // fmt survives a nil or panicking value
	case []byte:
		return h.text(key, string(t))
	}

	shown := fmt.Sprintf("%+v", v.Any())
	clean := h.r.Scrub(shown)
	if clean == shown {
		b, err := json.Marshal(v.Any())
		if err == nil && h.r.Scrub(string(b)) == string(b) {
			return v
		}
	}
	return h.text(key, shown)
}
