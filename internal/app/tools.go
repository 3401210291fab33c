package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"path/filepath"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/diskio"
	"github.com/nanobot-go/nanobot/internal/httpsafe"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/ledger"
	"github.com/nanobot-go/nanobot/internal/skill"
	"github.com/nanobot-go/nanobot/internal/tool"
	"github.com/nanobot-go/nanobot/internal/tool/files"
	"github.com/nanobot-go/nanobot/internal/tool/image"
	"github.com/nanobot-go/nanobot/internal/tool/shell"
)

// tools builds the set of tools and the way the model may send files.
func (a *App) tools(o Options) (*tool.Set, func(string) (bus.Media, error), error) {
	cfg := a.Config.Config.Tools
	// A start without any configuration file is a new install and gets the
	// safe default; an existing file keeps the meaning it always had.
	restrict := cfg.RestrictToWorkspace || cfg.Exec.Sandbox != "" && cfg.Exec.Sandbox != "none" || !a.Config.Exists
	deny, denyWrite := a.protectedPaths()
	mediaDir := filepath.Join(a.Config.DataDir, "media")
	jail, err := diskio.OpenJail(diskio.JailOptions{
		Workspace: a.Workspace, Restrict: restrict, ReadOnly: []string{mediaDir}, Protected: deny, ProtectedWrite: denyWrite,
	})
	if err != nil {
		return nil, nil, fmt.Errorf("open the workspace: %w", err)
	}
	var list []tool.Tool
	if !o.NoBuiltins && cfg.File.Enable {
		list = append(list, files.Tools(files.Options{Jail: jail, Virtual: skill.BuiltinFS()})...)
	}
	if a.Exec = a.containment(); !o.NoBuiltins && strings.HasPrefix(a.Exec, "on") {
		sh, err := a.shell(o, restrict, deny, mediaDir)
		if err != nil {
			return nil, nil, err
		}
		list = append(list, sh.Tools()...)
	}
	if t, ok := a.imageTool(o, jail, mediaDir); ok && !o.NoBuiltins {
		list = append(list, t)
	}
	set, err := tool.NewSet(append(list, o.Tools...)...)
	if err != nil {
		return nil, nil, fmt.Errorf("tools: %w", err)
	}
	return set, mediaOpener(jail), nil
}

// containment says whether commands run and what holds them. A sandbox that is
// asked for and not there switches them off, with a note.
func (a *App) containment() string {
	cfg := a.Config.Config.Tools.Exec
	switch {
	case !cfg.Enable:
		return "off"
	case cfg.Sandbox == "bwrap", cfg.Sandbox == "landlock":
		a.Notes = append(a.Notes, "Commands are switched off: tools.exec.sandbox is \""+cfg.Sandbox+"\", which this version does not support yet. Set it to \"auto\" or \"none\" to allow them.")
		return "off: tools.exec.sandbox asks for " + cfg.Sandbox + ", which this version does not have yet"
	}
	return "on, guarded by rules on the parsed command; no kernel sandbox in this version"
}

func (a *App) shell(o Options, restrict bool, protected []string, mediaDir string) (*shell.Shell, error) {
	cfg := a.Config.Config.Tools.Exec
	timeout := time.Duration(cfg.Timeout) * time.Second
	if cfg.Timeout == 0 {
		timeout = shell.NoTimeout
	}
	sh, err := shell.New(shell.Options{
		Workspace: a.Workspace, Restrict: restrict, Roots: []string{mediaDir}, Timeout: timeout,
		PathPrepend: cfg.PathPrepend, PathAppend: cfg.PathAppend, AllowedEnv: cfg.AllowedEnvKeys,
		Allow: cfg.AllowPatterns, Deny: cfg.DenyPatterns, Protected: protected, Environ: o.Env, Log: o.Log,
	})
	if err != nil {
		return nil, fmt.Errorf("tools.exec: %w", err)
	}
	return sh, nil
}

// imageTool makes generate_image when it is switched on. One that cannot be set
// up is left out with a note: the rest of the agent works without it.
func (a *App) imageTool(o Options, jail *diskio.Jail, mediaDir string) (tool.Tool, bool) {
	cfg := a.Config.Config.Tools.ImageGeneration
	if !cfg.Enabled {
		return tool.Tool{}, false
	}
	p := a.Config.Config.Providers[cfg.Provider]
	key := firstKey(p)
	if row, ok := llm.LookupRow(cfg.Provider); ok && key.IsZero() {
		for _, name := range row.EnvKeys {
			if v := lookup(o.Env)(name); v != "" {
				key = httpsafe.NewSecret(v)
				break
			}
		}
	}
	t, err := newImageTool(image.Options{
		Provider: cfg.Provider, Model: cfg.Model, Key: key, Base: p.APIBase, Headers: p.ExtraHeaders,
		AspectRatio: cfg.DefaultAspectRatio, Size: cfg.DefaultImageSize, MaxPerTurn: cfg.MaxImagesPerTurn,
		Media: mediaDir, SaveDir: cfg.SaveDir, Read: func(path string) ([]byte, error) { return readWhole(jail, path) },
	}, p.Proxy.Reveal())
	if err != nil {
		a.Notes = append(a.Notes, fmt.Sprintf("Pictures cannot be made: %v", err))
		return tool.Tool{}, false
	}
	return a.metered(t, cfg.Provider, cfg.Model), true
}

// pictureTokens is about what a picture counts as where vendors count tokens.
const pictureTokens = 4096

// metered counts the calls of a tool that costs money like calls of a model:
// the budget is asked before, and the record is written after.
func (a *App) metered(t tool.Tool, provider, model string) tool.Tool {
	run := t.Run
	t.Run = func(ctx context.Context, c tool.Call) (res tool.Result, err error) {
		call := llm.ModelFunc(func(ctx context.Context, _ llm.Request) iter.Seq2[llm.Event, error] {
			return func(yield func(llm.Event, error) bool) {
				if res, err = run(ctx, c); err != nil || res.IsError {
					yield(llm.Event{}, &llm.Error{Kind: llm.InvalidRequest, Err: err})
					return
				}
				yield(llm.Event{Kind: llm.Done, Response: &llm.Response{
					Message: llm.Message{Role: llm.Assistant}, Finish: llm.FinishStop,
					Usage: llm.Usage{Prompt: len(c.Input) / 4, Completion: pictureTokens, Estimated: true},
				}}, nil)
			}
		})
		meter := ledger.Meter(call, ledger.MeterOptions{Ledger: a.models.ledger, Prices: a.models.prices, Provider: provider})
		_, merr := llm.Collect(ctx, meter, llm.Request{
			Model: model, SessionKey: c.SessionKey, TurnID: c.TurnID, Estimate: len(c.Input)/4 + 1, MaxTokens: pictureTokens,
		})
		if e, ok := errors.AsType[*llm.Error](merr); ok && e.Kind == llm.BudgetExceeded {
			return tool.Fail(tool.DeniedPolicy, "%s", e.Message), nil
		}
		return res, err
	}
	return t
}

func newImageTool(o image.Options, proxy string) (tool.Tool, error) {
	var err error
	if o.Client, err = httpsafe.Client(httpsafe.Options{Proxy: proxy, Direct: o.Base != "" && httpsafe.IsLocal(o.Base)}); err != nil {
		return tool.Tool{}, err
	}
	if o.Download, err = httpsafe.Guarded(httpsafe.GuardOptions{Timeout: 2 * time.Minute}); err != nil {
		return tool.Tool{}, err
	}
	return image.New(o)
}

// maxReference bounds a picture the model wants to start from.
const maxReference = 10<<20 + 1

func readWhole(jail *diskio.Jail, path string) ([]byte, error) {
	f, err := jail.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // read only
	return io.ReadAll(io.LimitReader(f, maxReference))
}

// mediaOpener lets the message tool attach only what the file tools may read.
func mediaOpener(jail *diskio.Jail) func(string) (bus.Media, error) {
	return func(path string) (bus.Media, error) {
		f, err := jail.Open(path)
		if err != nil {
			return bus.Media{}, err
		}
		defer f.Close() //nolint:errcheck // read only
		info, err := f.Stat()
		if err != nil {
			return bus.Media{}, err
		}
		const limit = 50 << 20
		if info.Size() > limit {
			return bus.Media{}, errors.New("larger than 50 MiB")
		}
		if path, err = jail.Path(path); err != nil {
			return bus.Media{}, err
		}
		return bus.Media{Path: path, Name: filepath.Base(path), Size: info.Size()}, nil
	}
}
