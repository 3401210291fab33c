package cli

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nanobot-go/nanobot"
	"github.com/nanobot-go/nanobot/internal/app"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/config"
	"github.com/nanobot-go/nanobot/internal/diskio"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/record"
	"github.com/nanobot-go/nanobot/internal/session"
	"github.com/nanobot-go/nanobot/internal/store/disk"
	"github.com/nanobot-go/nanobot/internal/tool"
	"github.com/nanobot-go/nanobot/internal/tool/files"
	"github.com/nanobot-go/nanobot/internal/tool/shell"
)

func (c *command) replayCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "replay FILE", Short: "Run a recorded conversation again, without a model", Args: exactArgs(1),
		Long: `replay runs the turns of a recording again with this version of nanobot. The
model's answers and the tool results come from the file: replay sends nothing,
runs no command, and reads and changes none of your files. If the requests of
this version differ from the recorded ones, it shows the differences and exits
with 1. Create a recording with: nanobot agent --record FILE`,
		Example: `  nanobot replay bug.jsonl
  nanobot replay bug.jsonl --json | jq .differences`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.replay(cmd, args[0], asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return cmd
}

// replayReport is what nanobot replay --json writes.
type replayReport struct {
	Recorded    record.Header       `json:"recorded"`
	Version     string              `json:"nanobot"` // of the replay
	Turns       []replayedTurn      `json:"turns"`
	Requests    int                 `json:"requests"` // recorded
	Torn        bool                `json:"torn,omitempty"`
	Differences []record.Difference `json:"differences"`
}

// replayedTurn is one message and what became of it.
type replayedTurn struct {
	Text  string `json:"text"`
	Reply string `json:"reply,omitempty"`
	Error string `json:"error,omitempty"`
}

func (c *command) replay(cmd *cobra.Command, file string, asJSON bool) error {
	rec, err := record.Load(file)
	if err != nil {
		return err
	}
	if len(rec.Turns()) == 0 {
		return fmt.Errorf("%s: the recording contains no turn", file)
	}
	report, err := c.runRecording(cmd.Context(), rec)
	if err != nil {
		return fmt.Errorf("replay: %w", err)
	}
	out := cmd.OutOrStdout()
	if asJSON {
		err = writeJSON(out, report)
	} else {
		_, err = fmt.Fprint(out, report.text())
	}
	if err != nil {
		return err
	}
	if len(report.Differences) > 0 {
		return failure{exitFailure}
	}
	return nil
}

func (r replayReport) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Recorded %s with nanobot %s on %s; replayed with %s.\n", r.Recorded.Time.Local().Format("2006-01-02 15:04"), r.Recorded.Version, r.Recorded.OS, r.Version)
	if r.Torn {
		b.WriteString("The end of the recording is missing.\n")
	}
	for i, t := range r.Turns {
		fmt.Fprintf(&b, "\nTurn %d: %s\n", i+1, firstWords(t.Text))
		if t.Error != "" {
			fmt.Fprintf(&b, "  ended with: %s\n", firstWords(t.Error))
		} else {
			fmt.Fprintf(&b, "  answer: %s\n", firstWords(t.Reply))
		}
	}
	if len(r.Differences) == 0 {
		fmt.Fprintf(&b, "\nNo difference in %s.\n", count(r.Requests, "request"))
		return b.String()
	}
	fmt.Fprintf(&b, "\n%s:\n", count(len(r.Differences), "difference"))
	for _, d := range r.Differences {
		fmt.Fprintf(&b, "- %s\n", d)
	}
	return b.String()
}

func count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return strconv.Itoa(n) + " " + what
}

func firstWords(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > 100 {
		s = string(r[:99]) + "…"
	}
	return s
}

// runRecording plays a recording in a folder of its own.
func (c *command) runRecording(ctx context.Context, rec *record.Recording) (report replayReport, err error) {
	dir, err := os.MkdirTemp("", "nanobot-replay-")
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	workspace, err := replayWorkspace(dir, rec)
	if err != nil {
		return report, err
	}
	player := record.NewPlayer(rec, record.PlayerOptions{
		Recorded: placeholders(rec.Header.Workspace, rec.Header.OS, rec.Header.Arch),
		Current:  placeholders(workspace, runtime.GOOS, runtime.GOARCH),
	})
	bot, err := c.replayBot(ctx, dir, workspace, rec, player)
	if err != nil {
		return report, err
	}
	defer bot.Close() //nolint:errcheck // always nil
	report = replayReport{Recorded: rec.Header, Version: nanobot.Version(), Requests: len(rec.Exchanges), Torn: rec.Torn}
	report.Recorded.Files = nil // long, and in the recording
	begun := map[string]bool{}
	for i, t := range rec.Turns() {
		if !begun[t.Session] && len(t.History) > 0 {
			if err := seed(ctx, dir, workspace, t); err != nil {
				return report, err
			}
		}
		begun[t.Session] = true
		media, err := replayImages(workspace, i, t.Images)
		if err != nil {
			return report, err
		}
		report.Turns = append(report.Turns, playTurn(ctx, bot, t, media))
		if ctx.Err() != nil {
			return report, ctx.Err()
		}
	}
	report.Differences = player.Differences()
	if report.Differences == nil {
		report.Differences = []record.Difference{}
	}
	return report, nil
}

// replayWorkspace makes a workspace that gives the recorded prompt.
func replayWorkspace(dir string, rec *record.Recording) (string, error) {
	workspace := filepath.Join(dir, "workspace")
	if _, err := app.SyncTemplates(&config.Loaded{DataDir: dir}, workspace); err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte("{}\n"), 0o600); err != nil {
		return "", err
	}
	if rec.Header.Files == nil {
		return workspace, nil // nobody knows; the templates are the best guess
	}
	root, err := diskio.OpenTree(workspace) // the names come from a stranger's file
	if err != nil {
		return "", err
	}
	defer root.Close() //nolint:errcheck // every file was closed with its error looked at
	for _, name := range record.PromptFiles() {
		if err := root.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
			return "", err
		}
	}
	for name, body := range rec.Header.Files {
		if err := root.MkdirAll(path.Dir(name), 0o700); err != nil {
			return "", err
		}
		if err := root.WriteFile(name, []byte(body), 0o600); err != nil {
			return "", err
		}
	}
	return workspace, nil
}

// placeholders makes what belongs to one machine look the same everywhere.
func placeholders(workspace, goos, arch string) []string {
	var pairs []string
	if workspace != "" {
		pairs = append(pairs, workspace, "<workspace>")
		if quoted := strings.ReplaceAll(workspace, `\`, `\\`); quoted != workspace {
			pairs = append(pairs, quoted, "<workspace>")
		}
	}
	if goos == "darwin" {
		goos = "macOS"
	}
	if goos != "" {
		pairs = append(pairs, "("+goos+", "+arch+";", "(<system>;")
	}
	return pairs
}

// replayBot is this version's agent with the player in place of the world.
func (c *command) replayBot(ctx context.Context, dir, workspace string, rec *record.Recording, player *record.Player) (*nanobot.Bot, error) {
	builtin, err := builtinTools(workspace)
	if err != nil {
		return nil, err
	}
	opts := []nanobot.Option{
		nanobot.WithConfigFile(filepath.Join(dir, "config.json")), nanobot.WithWorkspace(workspace), nanobot.WithModel(player),
		nanobot.WithoutBuiltinTools(), nanobot.WithTools(player.Tools(builtin, "message", "ask_user", "create_goal", "update_goal")...), nanobot.WithLogger(c.logger()),
		nanobot.WithEnv([]string{"PATH=" + c.getenv("PATH")}),
	}
	for _, name := range slices.Sorted(maps.Keys(rec.Header.Settings)) {
		if !strings.HasPrefix(name, "agents.defaults.") {
			continue // a recording comes from others and decides nothing else
		}
		opts = append(opts, nanobot.WithSetting(name, rec.Header.Settings[name]))
	}
	return nanobot.New(ctx, opts...)
}

// builtinTools are the tools of this version, for their descriptions only.
func builtinTools(workspace string) ([]tool.Tool, error) {
	jail, err := diskio.OpenJail(diskio.JailOptions{Workspace: workspace, Restrict: true})
	if err != nil {
		return nil, err
	}
	exec, err := shell.New(shell.Options{Workspace: workspace, Restrict: true})
	if err != nil {
		return nil, err
	}
	return append(files.Tools(files.Options{Jail: jail}), exec.Tools()...), nil
}

// seed puts what was said before the recording into the session.
func seed(ctx context.Context, dir, workspace string, t record.Turn) (err error) {
	store, err := session.Open(session.Options{DataDir: dir, Store: disk.Open(dir, nil), Workspace: workspace})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	s, err := store.Acquire(ctx, t.Session)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Release()) }()
	recs := make([]session.Record, len(t.History))
	for i, m := range t.History {
		recs[i] = session.Record{Message: m, Time: t.At}
	}
	return s.Append(recs...)
}

// replayImages puts the pictures of a message where it can attach them.
func replayImages(workspace string, turn int, images []llm.Block) ([]bus.Media, error) {
	var out []bus.Media
	for i, b := range images {
		_, data, ok := strings.Cut(b.ImageURL, ";base64,")
		raw, err := base64.StdEncoding.DecodeString(data)
		if !ok || err != nil {
			continue // told as a difference
		}
		name := filepath.Join(workspace, fmt.Sprintf(".picture-%d-%d", turn+1, i+1))
		if err := os.WriteFile(name, raw, 0o600); err != nil {
			return nil, err
		}
		out = append(out, bus.Media{Path: name})
	}
	return out, nil
}

func playTurn(ctx context.Context, bot *nanobot.Bot, t record.Turn, media []bus.Media) replayedTurn {
	res := replayedTurn{Text: t.Text}
	in := bus.Inbound{
		Route: bus.Route{Channel: t.Channel, ChatID: t.ChatID}, SessionKey: t.Session, Text: t.Text, Media: media, At: t.At,
		WantsStream: true, OwnTurn: true,
	}
	for out, err := range bot.Ask(ctx, in) {
		switch {
		case err != nil:
			res.Error = err.Error()
		case out.Kind == bus.Final && out.Turn != nil && out.Turn.Error != "":
			res.Error = out.Turn.Error
		case out.Kind == bus.Final:
			res.Reply = out.Text
		}
	}
	return res
}
