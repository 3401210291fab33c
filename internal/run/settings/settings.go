// Package settings hides how web clients read and change the configuration: models
// and providers, channels and who may talk there, MCP servers, skills and logins.
// A change edits the configuration file only after a test that the result would
// work, and then makes the gateway read it again. New returns the reads and the
// actions, by their names.
package settings

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
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
	// Tell says something to the owner.
	Tell func(ctx context.Context, s phrase.Sentence)
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

// New returns what web clients may read, by path below /api/, and what they may
// change, by the name of the action.
func New(o Options) (reads map[string]web.Read, actions map[string]web.Action) {
	ed := &editor{Options: o}
	waiting := &logins{Options: o}
	md, ch, srv := &models{ed, waiting}, &channels{ed, waiting}, &servers{ed, waiting}
	all := &whole{ed, ch}

	reads = map[string]web.Read{
		"setup":                     md.readSetup,
		"settings":                  md.readSettings,
		"settings/usage":            ed.readUsage,
		"settings/provider-models":  md.readModels,
		"settings/api-service":      ch.readAPIService,
		"settings/pairing":          ch.readPairing,
		"settings/mcp-presets":      srv.readMCP,
		"settings/mcp-oauth/status": srv.readMCPLogins,
		"settings/mcp-log":          srv.readLog,
		"settings/nanobot-features": ch.readFeatures,
		"settings/channel-schema":   ch.readSchema,
		"settings/version-check":    ed.readVersion,
		"settings/cli-apps": func(context.Context, *http.Request) (any, error) {
			return nil, noCLIApps()
		},
	}
	maps.Copy(reads, all.reads())

	actions = map[string]web.Action{
		"settings.agent.update":            web.Changing(ed.patchAction(patchOf{below: []string{"agents", "defaults"}}), web.TopicSettings),
		"settings.web_search.update":       web.Changing(ed.patchAction(patchOf{below: []string{"tools", "web"}}), web.TopicSettings),
		"settings.image_generation.update": web.Changing(ed.patchAction(patchOf{below: []string{"tools", "imageGeneration"}}), web.TopicSettings),
		"settings.transcription.update":    web.Changing(ed.patchAction(patchOf{below: []string{"transcription"}}), web.TopicSettings),
		"settings.network_safety.update":   web.Changing(ed.patchAction(patchOf{below: []string{"tools"}, only: safetySettings()}), web.TopicSettings),
		"workspace.pick_folder":            refusing(web.Refuse(http.StatusNotImplemented, "a gateway has no window to pick a folder in; type its path")),
	}
	for _, more := range []map[string]web.Action{md.actions(), md.signInActions(), all.actions(), ch.actions(), srv.actions(), srv.loginActions(), ed.skillActions()} {
		maps.Copy(actions, more)
	}
	for _, name := range []string{"install", "update", "uninstall", "test"} {
		actions["settings.cli_app."+name] = refusing(noCLIApps())
	}
	return reads, actions
}

func noCLIApps() error {
	return web.Refuse(http.StatusNotImplemented, "there are no CLI apps in this program; use exec or MCP")
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
