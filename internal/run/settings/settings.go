// Package settings hides how web clients read and change the configuration: models
// and providers, channels and who may talk there, MCP servers, skills and logins.
// A change edits the configuration file only after a test that the result would
// work, and then makes the gateway read it again. New returns the subjects.
package settings

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/deliver"
	"github.com/nanobot-go/nanobot/internal/run/app"
	"github.com/nanobot-go/nanobot/internal/run/config"
	"github.com/nanobot-go/nanobot/internal/web"
)

// Options holds what the settings need of the gateway. All are required.
type Options struct {
	App       app.Options    // how agents are built
	File      config.Options // how the configuration is found and read
	Workspace string
	Secrets   *httpsafe.Registry
	Log       *slog.Logger

	// Current is the agent in use.
	Current func(ctx context.Context) (*app.App, error)
	// Config is the configuration in use.
	Config func() *config.Loaded
	// Try says why a configuration could not be used.
	Try func(ctx context.Context, next *config.Loaded) error
	// Reload reads the file again and puts it to use.
	Reload func(ctx context.Context) error
	// Status tells what is wrong and which changed settings wait for a restart.
	Status func() (problems, later []string)
	// Notify sends a sentence to the owner.
	Notify func(ctx context.Context, s phrase.Sentence)
	// Life is how long background work may go on; nil while the gateway does
	// not run. Go does such work.
	Life func() context.Context
	Go   func(work func())

	Channels *deliver.Manager
	Drivers  map[string]chat.Driver
	// TryChannels makes channels that are never run.
	TryChannels func(l *config.Loaded, sections map[string]json.RawMessage) (*deliver.Manager, error)
	// LoginChannel connects a channel to an account and keeps what that found
	// out in the configuration.
	LoginChannel func(ctx context.Context, name string, d chat.Dialog, force bool) (chat.Result, error)
	// API tells where the API listens, nil if the program around the gateway
	// serves it, and whether these settings let it be served there.
	API func(cfg config.Config) (net.Addr, bool)
}

// New returns what web clients read and change of the settings, one subject for each
// part. All share the editor of the file and the logins that wait for a person.
func New(o Options) []web.Subject {
	behind := background{Life: o.Life, Go: o.Go}
	ed := &editor{
		background: behind,
		File:       o.File, Config: o.Config, Secrets: o.Secrets, Log: o.Log, Now: o.App.Now,
		Try: o.Try, Reload: o.Reload, Status: o.Status, Notify: o.Notify,
	}

	waiting := &logins{background: behind, secrets: o.Secrets, all: map[string]*login{}}

	build := o.App
	build.Workspace = o.Workspace
	build.Log = o.Log
	build.Secrets = o.Secrets

	md := &models{editor: ed, logins: waiting, current: o.Current, app: build}
	ch := &channels{
		editor: ed, logins: waiting,
		Channels: o.Channels, Drivers: o.Drivers, TryChannels: o.TryChannels, LoginChannel: o.LoginChannel, API: o.API,
	}
	return []web.Subject{
		md, ch,
		&servers{editor: ed, logins: waiting, current: o.Current, app: build},
		&whole{editor: ed, channels: ch},
		&sections{editor: ed},
		&skills{editor: ed, current: o.Current},
		usage{current: o.Current, now: o.App.Now},
		fixed{version: o.App.Version},
	}
}

// background is how long work goes on that outlasts its request, and who does it.
type background struct {
	Life func() context.Context
	Go   func(work func())
}

// life returns how long background work may go on. While the gateway does not
// run, what would be left undone is refused.
func (b background) life() (context.Context, error) {
	if life := b.Life(); life != nil {
		return life, nil
	}
	return nil, web.Refuse(http.StatusServiceUnavailable, "the gateway is not running; try again in a moment")
}

// sections are parts of the configuration that are changed as a whole.
type sections struct{ *editor }

// Routes implements web.Subject.
func (s *sections) Routes() web.Routes {
	change := func(p patchOf) web.Action { return web.Changing(s.patchAction(p), web.TopicSettings) }
	return web.Routes{Actions: map[string]web.Action{
		"settings.agent.update":            change(patchOf{below: []string{"agents", "defaults"}}),
		"settings.web_search.update":       change(patchOf{below: []string{"tools", "web"}}),
		"settings.image_generation.update": change(patchOf{below: []string{"tools", "imageGeneration"}}),
		"settings.transcription.update":    change(patchOf{below: []string{"transcription"}}),
		"settings.network_safety.update":   change(patchOf{below: []string{"tools"}, only: safetySettings()}),
	}}
}

// fixed are answers that do not depend on the settings: the version, and what other
// programs of this kind have and this one has not.
type fixed struct{ version string }

// Routes implements web.Subject.
func (f fixed) Routes() web.Routes {
	noApps := web.Refuse(http.StatusNotImplemented, "there are no CLI apps in this program; use exec or MCP")
	routes := web.Routes{
		Reads: map[string]web.Read{
			"settings/version-check": f.readVersion,
			"settings/cli-apps":      func(context.Context, *http.Request) (any, error) { return nil, noApps },
		},
		Actions: map[string]web.Action{
			"workspace.pick_folder": refusing(web.Refuse(http.StatusNotImplemented, "a gateway has no window to pick a folder in; type its path")),
		},
	}
	for _, name := range []string{"install", "update", "uninstall", "test"} {
		routes.Actions["settings.cli_app."+name] = refusing(noApps)
	}
	return routes
}

func (f fixed) readVersion(context.Context, *http.Request) (any, error) {
	return map[string]any{"version": f.version, "checked": false}, nil
}

func refusing(err error) web.Action {
	return func(context.Context, json.RawMessage) (web.Done, error) { return web.Done{}, err }
}

// safetySettings returns what keeps the agent in bounds.
func safetySettings() []string {
	return []string{
		"tools.ssrfWhitelist", "tools.restrictToWorkspace", "tools.protectConfigDir", "tools.exec", "tools.approval",
		"tools.webuiAllowLocalServiceAccess", "tools.webuiAllowRemotePackageInstall",
	}
}
