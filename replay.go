package nanobot

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/core/record"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/run/app"
	"github.com/nanobot-go/nanobot/internal/run/config"
	"github.com/nanobot-go/nanobot/internal/tool/files"
	"github.com/nanobot-go/nanobot/internal/tool/shell"
)

// Replayed is what came of a Replay: the turns, and where this version's
// requests differ from the recorded ones.
type Replayed = record.Replayed

// Replay runs the turns of a recording (see WithRecording) again with this
// version. The model's answers and the results of tools come from the file:
// nothing is sent anywhere, no command runs, no file is read or changed. Of the
// options, WithEnv and WithLogger count.
func Replay(ctx context.Context, file string, opts ...Option) (Replayed, error) {
	rec, err := record.Load(file)
	if err != nil {
		return Replayed{}, err
	}
	if len(rec.Turns()) == 0 {
		return Replayed{}, fmt.Errorf("%s: the recording contains no turn", file)
	}

	o := options(opts)
	out, err := record.Replay(ctx, rec, record.ReplayOptions{
		Version: Version(),
		Prepare: func(dataDir, workspace string) error {
			if _, err := app.SyncTemplates(&config.Loaded{DataDir: dataDir}, workspace); err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(dataDir, "config.json"), []byte("{}\n"), 0o600)
		},
		Open: func(ctx context.Context, s record.Stage) (record.Agent, error) {
			return replayBot(ctx, s, WithLogger(o.Log), WithEnv([]string{"PATH=" + app.Getenv(o.Env)("PATH")}))
		},
		Seed: seedSession,
	})
	if err != nil {
		return out, fmt.Errorf("replay: %w", err)
	}
	return out, nil
}

// replayBot is this version's agent with the player in place of the world.
func replayBot(ctx context.Context, s record.Stage, opts ...Option) (*Bot, error) {
	builtin, err := builtinTools(s.Workspace)
	if err != nil {
		return nil, err
	}

	opts = append(opts, WithConfigFile(filepath.Join(s.DataDir, "config.json")), WithWorkspace(s.Workspace), WithModel(s.Player),
		WithoutBuiltinTools(), WithTools(s.Player.Tools(builtin, "message", "ask_user", "create_goal", "update_goal")...))
	for _, name := range slices.Sorted(maps.Keys(s.Settings)) {
		opts = append(opts, WithSetting(name, s.Settings[name]))
	}
	return New(ctx, opts...)
}

// builtinTools returns the tools of this version, for their descriptions only.
func builtinTools(workspace string) ([]Tool, error) {
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

// seedSession puts what was said before the recording into the session.
func seedSession(ctx context.Context, s record.Stage, t record.Turn) (err error) {
	store, err := session.Open(session.Options{DataDir: s.DataDir, Store: disk.Open(s.DataDir, nil), Workspace: s.Workspace})
	if err != nil {
		return err
	}

	defer func() { err = errors.Join(err, store.Close()) }()
	log, err := store.Acquire(ctx, t.Session)
	if err != nil {
		return err
	}

	defer func() { err = errors.Join(err, log.Release()) }()
	recs := make([]session.Record, len(t.History))
	for i, m := range t.History {
		recs[i] = session.Record{Message: m, Time: t.At}
	}
	return log.Append(recs...)
}
