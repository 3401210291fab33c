package daemon

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
)

// messages are those of JSON lines.
func messages(t *testing.T, lines []byte) string {
	t.Helper()
	var out strings.Builder
	for line := range bytes.Lines(lines) {
		var r struct{ Msg string }
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatal(err)
		}
		out.WriteString(r.Msg + "\n")
	}
	return out.String()
}

func TestLogLevels(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		verbose bool
		cfg     LogOptions
		want    string
	}{
		{name: "one for all", cfg: LogOptions{Level: "info"}, want: "general info\nmcp info\nmail info\n"},
		{name: "verbose", verbose: true, cfg: LogOptions{Level: "warn"}, want: "general debug\ngeneral info\nmcp debug\nmcp info\nmail debug\nmail info\n"},
		{
			name: "by component", cfg: LogOptions{Level: "info", Components: map[string]string{"mcp": "debug", "email": "error"}},
			want: "general info\nmcp debug\nmcp info\n",
		},
		{
			name: "verbose is for the rest", verbose: true, cfg: LogOptions{Level: "info", Components: map[string]string{"email": "error"}},
			want: "general debug\ngeneral info\nmcp debug\nmcp info\n",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var b bytes.Buffer
			tt.cfg.Format, tt.cfg.Verbose = "json", tt.verbose
			log := slog.New(LogHandler(&b, tt.cfg))
			for _, part := range []struct {
				name string
				log  *slog.Logger
			}{{"general", log}, {"mcp", log.With("component", "mcp")}, {"mail", log.With("channel", "email").With("chat", "x")}} {
				part.log.Debug(part.name + " debug") //nolint:sloglint // told apart by it
				part.log.Info(part.name + " info")   //nolint:sloglint // the same
			}
			if got := messages(t, b.Bytes()); got != tt.want {
				t.Errorf("got\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}
