package cli

import (
	"context"
	"log/slog"
)

// byComponent lets each part of the program have its own level. A part is told
// by the attribute component or channel that its logger carries.
type byComponent struct {
	slog.Handler
	level  slog.Level
	levels map[string]slog.Level
}

// Enabled implements slog.Handler.
func (h byComponent) Enabled(_ context.Context, l slog.Level) bool { return l >= h.level }

// WithAttrs implements slog.Handler.
func (h byComponent) WithAttrs(attrs []slog.Attr) slog.Handler {
	h.Handler = h.Handler.WithAttrs(attrs)
	for _, a := range attrs {
		if l, ok := h.levels[a.Value.String()]; ok && (a.Key == "component" || a.Key == "channel") {
			h.level = l
		}
	}
	return h
}

// WithGroup implements slog.Handler.
func (h byComponent) WithGroup(name string) slog.Handler {
	h.Handler = h.Handler.WithGroup(name)
	return h
}
