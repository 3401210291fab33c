package gateway

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/datadir"
	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/run/app"
	"github.com/nanobot-go/nanobot/internal/run/backup"
	"github.com/nanobot-go/nanobot/internal/run/settings"
	"github.com/nanobot-go/nanobot/internal/web"
	"github.com/nanobot-go/nanobot/internal/web/subject"
)

// subjects returns what web clients read and change: of the gateway itself, its settings
// and devices, and of the agent.
func (g *Gateway) subjects() []web.Subject {
	log := subject.Log{File: func() string { return LogFile(g.state.config()) }, Secrets: g.secrets}
	all := append(g.web.subjects(), settings.New(g.settings())...)
	return append(all,
		log,
		subject.Operations{
			Status: func(ctx context.Context) any {
				s := g.Status()
				s.Jobs = g.Jobs(ctx)
				return s
			},
			Reload:  g.Reload,
			Restart: func() { g.o.Restart(bus.Route{}) },
			Backup:  func(ctx context.Context) (string, error) { return newBackup(ctx, g) },
			Promise: g.pages.server.Promise,
			Log:     log,
		},
		&subject.Checkup{Checks: g.o.Checks, Secrets: g.secrets, Life: g.life, Go: g.background.Go, Feed: g.topics},
		subject.Devices{Auth: g.pages.auth, Public: func() string { return g.state.config().Config.Gateway.WebUI.PublicURL }},
		g.pages.push,
	)
}

// newPush tells devices that something waits.
func newPush(g *Gateway, p *webPages) subject.Push {
	return subject.Push{
		Store: app.State(g.state.config(), g.log), Name: string(datadir.PushKeys), Client: subject.PushClient(), Log: g.log, Now: g.o.Now,
		Enabled: func() bool { return g.state.config().Config.Gateway.WebUI.Push },
		Devices: func(ctx context.Context) (ids []string, err error) {
			list, err := p.auth.Devices(ctx)
			for i := range list {
				ids = append(ids, list[i].ID)
			}
			return ids, err
		},
	}
}

// pushQuestion tells devices that a turn waits for an answer.
func (g *Gateway) pushQuestion() {
	if life := g.life(); life != nil {
		g.background.Go(func() { g.pages.push.Notify(life, "question") })
	}
}

// newBackup makes a backup without credentials in a folder of its own.
func newBackup(ctx context.Context, g *Gateway) (string, error) {
	l := g.state.config()
	run := datadir.Run.In(l.DataDir)
	if err := diskio.MkdirAll(run, 0o700); err != nil {
		return "", err
	}

	dir, err := os.MkdirTemp(run, "backup-")
	if err != nil {
		return "", err
	}

	file := filepath.Join(dir, "nanobot-backup-"+g.o.Now().Format("20060102-150405")+".tar.gz")
	if _, err := backup.Create(ctx, file, backup.Options{Config: l, Workspace: g.workspace, Version: g.o.Version, Now: g.o.Now()}); err != nil {
		return "", errors.Join(err, os.RemoveAll(dir))
	}
	return file, nil
}

// logPause is how often pages are told about new lines of the log, at most.
const logPause = 250 * time.Millisecond

// watchedLog is a log that tells pages of new lines.
type watchedLog struct {
	slog.Handler
	notify func()
	asked  *atomic.Bool // pages will be told
}

func withNotes(log *slog.Logger, tell func()) *slog.Logger {
	return slog.New(watchedLog{log.Handler(), tell, &atomic.Bool{}})
}

// Handle implements slog.Handler. Who writes may hold locks that telling needs.
func (n watchedLog) Handle(ctx context.Context, r slog.Record) error {
	err := n.Handler.Handle(ctx, r)
	if n.asked.CompareAndSwap(false, true) {
		time.AfterFunc(logPause, func() {
			n.asked.Store(false)
			n.notify()
		})
	}
	return err
}

// WithAttrs implements slog.Handler.
func (n watchedLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	n.Handler = n.Handler.WithAttrs(attrs)
	return n
}

// WithGroup implements slog.Handler.
func (n watchedLog) WithGroup(name string) slog.Handler {
	n.Handler = n.Handler.WithGroup(name)
	return n
}
