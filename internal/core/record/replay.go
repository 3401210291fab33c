package record

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"iter"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/llm"
)

// Replayed holds what came of a replay.
type Replayed struct {
	Recorded    Header         `json:"recorded"`
	Version     string         `json:"nanobot"` // of the replay
	Turns       []ReplayedTurn `json:"turns"`
	Requests    int            `json:"requests"` // recorded
	Torn        bool           `json:"torn,omitempty"`
	Differences []Difference   `json:"differences"`
}

// ReplayedTurn is one message and what became of it.
type ReplayedTurn struct {
	Text  string `json:"text"`
	Reply string `json:"reply,omitempty"`
	Error string `json:"error,omitempty"`
}

// Stage is the place a recording is played in: folders of its own and a player
// instead of the model and the world.
type Stage struct {
	DataDir   string
	Workspace string
	Settings  map[string]string // of the recorded agent
	Player    *Player
}

// Agent answers messages.
type Agent interface {
	Ask(ctx context.Context, in bus.Inbound) iter.Seq2[bus.Outbound, error]
	Close() error
}

// ReplayOptions holds what a replay needs from the program around it.
type ReplayOptions struct {
	Version string
	// Prepare fills a new data folder and workspace as a first start does.
	Prepare func(dataDir, workspace string) error
	// Open makes an agent that has the player in place of its model and tools.
	Open func(ctx context.Context, s Stage) (Agent, error)
	// Seed puts what was said before the recording into the session of a turn.
	Seed func(ctx context.Context, s Stage, t Turn) error
}

// Replay runs the turns of a recording again, in a folder of its own, and tells
// where the requests differ from the recorded ones.
func Replay(ctx context.Context, rec *Recording, o ReplayOptions) (out Replayed, err error) {
	dir, err := os.MkdirTemp("", "nanobot-replay-")
	if err != nil {
		return out, err
	}

	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s := Stage{DataDir: dir, Workspace: filepath.Join(dir, "workspace"), Settings: map[string]string{}}
	for name, value := range rec.Header.Settings {
		if strings.HasPrefix(name, "agents.defaults.") { // a recording comes from others and decides nothing else
			s.Settings[name] = value
		}
	}

	if err := o.Prepare(dir, s.Workspace); err != nil {
		return out, err
	}
	if err := restoreFiles(s.Workspace, rec.Header.Files); err != nil {
		return out, err
	}

	s.Player = newPlayer(rec, playerOptions{
		Recorded: placeholders(rec.Header.Workspace, rec.Header.OS, rec.Header.Arch),
		Current:  placeholders(s.Workspace, runtime.GOOS, runtime.GOARCH),
	})
	agent, err := o.Open(ctx, s)
	if err != nil {
		return out, err
	}

	defer func() { err = errors.Join(err, agent.Close()) }()

	out = Replayed{Recorded: rec.Header, Version: o.Version, Requests: len(rec.Exchanges), Torn: rec.Torn, Differences: []Difference{}}
	out.Recorded.Files = nil // long, and in the recording
	begun := map[string]bool{}
	for i, t := range rec.Turns() {
		if !begun[t.Session] && len(t.History) > 0 {
			if err := o.Seed(ctx, s, t); err != nil {
				return out, err
			}
		}

		begun[t.Session] = true
		media, err := restoreImages(s.Workspace, i, t.Images)
		if err != nil {
			return out, err
		}

		out.Turns = append(out.Turns, playTurn(ctx, agent, t, media))
		if ctx.Err() != nil {
			return out, ctx.Err()
		}
	}

	out.Differences = append(out.Differences, s.Player.differences()...)
	return out, nil
}

// restoreFiles makes a workspace give the recorded prompt.
func restoreFiles(workspace string, recorded map[string]string) error {
	if recorded == nil {
		return nil // they are not known; the templates are the best guess
	}

	root, err := diskio.OpenTree(workspace) // the names come from a stranger's file
	if err != nil {
		return err
	}

	defer root.Close() //nolint:errcheck // every file was closed with its error looked at
	for _, name := range promptNames() {
		if err := root.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}

	for name, body := range recorded {
		if err := root.MkdirAll(path.Dir(name), 0o700); err != nil {
			return err
		}
		if err := root.WriteFile(name, []byte(body), 0o600); err != nil {
			return err
		}
	}

	return nil
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

// restoreImages puts the pictures of a message where it can attach them.
func restoreImages(workspace string, turn int, images []llm.Block) ([]bus.Media, error) {
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

func playTurn(ctx context.Context, agent Agent, t Turn, media []bus.Media) ReplayedTurn {
	res := ReplayedTurn{Text: t.Text}
	in := bus.Inbound{
		Route: bus.Route{Channel: t.Channel, ChatID: t.ChatID}, SessionKey: t.Session, Text: t.Text, Media: media, At: t.At,
		WantsStream: true, OwnTurn: true,
	}
	for out, err := range agent.Ask(ctx, in) {
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

// String returns the report for people.
func (r Replayed) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Recorded %s with nanobot %s on %s; replayed with %s.\n", r.Recorded.Time.Local().Format("2006-01-02 15:04"), r.Recorded.Version, r.Recorded.OS, r.Version)
	if r.Torn {
		b.WriteString("The end of the recording is missing.\n")
	}

	for i, t := range r.Turns {
		fmt.Fprintf(&b, "\nTurn %d: %s\n", i+1, text.Label(t.Text, 100))
		if t.Error != "" {
			fmt.Fprintf(&b, "  ended with: %s\n", text.Label(t.Error, 100))
		} else {
			fmt.Fprintf(&b, "  answer: %s\n", text.Label(t.Reply, 100))
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
