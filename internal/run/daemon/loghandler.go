package daemon

import (
	"context"
	"io"
	"log/slog"
)

// LogOptions say how much of a log is written, and in which form.
type LogOptions struct {
	Level      string            // debug, info, warn or error
	Format     string            // json or text
	Components map[string]string // levels of parts of the program
	Verbose    bool              // all that has no level of its own is at debug
}

// LogHandler writes a log.
func LogHandler(w io.Writer, o LogOptions) slog.Handler {
	var level slog.Level
	if err := level.UnmarshalText([]byte(o.Level)); err != nil {
		level = slog.LevelInfo
	}
	if o.Verbose {
		level = slog.LevelDebug
	}

	opts := &slog.HandlerOptions{Level: level}
	var h slog.Handler = slog.NewJSONHandler(w, opts)
	if o.Format == "text" {
		h = slog.NewTextHandler(w, opts)
	}

	if len(o.Components) == 0 {
		return h
	}

	levels := map[string]slog.Level{}
	for name, text := range o.Components {
		var l slog.Level
		if l.UnmarshalText([]byte(text)) == nil { // checked when the configuration was read
			levels[name] = l
		}
	}
	return byComponent{h, level, levels}
}

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
