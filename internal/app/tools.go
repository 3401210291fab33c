package app

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/channel"
	"github.com/nanobot-go/nanobot/internal/config"
	"github.com/nanobot-go/nanobot/internal/diskio"
	"github.com/nanobot-go/nanobot/internal/document"
	"github.com/nanobot-go/nanobot/internal/httpsafe"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/catalog"
	"github.com/nanobot-go/nanobot/internal/llm/ledger"
	"github.com/nanobot-go/nanobot/internal/origin"
	"github.com/nanobot-go/nanobot/internal/sandbox"
	"github.com/nanobot-go/nanobot/internal/skill"
	"github.com/nanobot-go/nanobot/internal/text"
	"github.com/nanobot-go/nanobot/internal/tool"
	"github.com/nanobot-go/nanobot/internal/tool/approve"
	"github.com/nanobot-go/nanobot/internal/tool/files"
	"github.com/nanobot-go/nanobot/internal/tool/image"
	"github.com/nanobot-go/nanobot/internal/tool/shell"
	"github.com/nanobot-go/nanobot/internal/tool/web"
)

// tools builds the set of tools and the way the model may send files.
func (a *App) tools(o Options) (*tool.Set, func(context.Context, tool.Call, string) (bus.Media, error), error) {
	cfg := a.Config.Config.Tools
	a.others, a.projects = &others{app: a, o: o}, &projects{app: a, o: o}
	if err := a.guard(o); err != nil {
		return nil, nil, err
	}
	var list []tool.Tool
	if !o.NoBuiltins {
		var err error
		if list, err = a.builtins(o); err != nil {
			return nil, nil, err
		}
	}
	set, err := tool.NewSet(append(list, o.Tools...)...)
	if err != nil {
		return nil, nil, fmt.Errorf("tools: %w", err)
	}
	if !o.NoBuiltins && len(cfg.MCPServers) > 0 {
		if a.servers, err = a.mcpPool(o, set.Names()); err != nil {
			return nil, nil, err
		}
	}
	return set, a.others.media, nil
}

func (a *App) builtins(o Options) ([]tool.Tool, error) {
	cfg := a.Config.Config.Tools
	var list []tool.Tool
	if cfg.File.Enable {
		list = append(list, apart(a.fileTools(a.safety.jail, a.safety.origins.in("")), a.others.files)...)
	}
	if a.Exec = a.containment(); cfg.Exec.Enable {
		sh, err := a.shell(o)
		if err != nil {
			return nil, err
		}
		a.commands = sh
		list = append(list, apart(sh.Tools(), a.others.commands)...)
	}
	if cfg.Web.Enable {
		more, err := a.webTools(o)
		if err != nil {
			a.Notes = append(a.Notes, fmt.Sprintf("The web cannot be used: %v", err))
		}
		list = append(list, more...)
	}
	var err error
	if a.Index, err = a.openIndex(o.Log); err != nil {
		return nil, err
	}
	list = append(list, a.Index.Tool(a.Config.Config.Agents.Defaults.Location()), a.Schedule.Tool())
	pictures, err := a.pictures(o, a.safety.jail, a.safety.media)
	if err != nil {
		a.Notes = append(a.Notes, fmt.Sprintf("Pictures cannot be made: %v", err))
	}
	return append(list, apart(pictures, a.others.files)...), nil
}

// fileTools are the file family behind a jail. The record says which files came
// from outside; nil: only what is shared with guests did.
func (a *App) fileTools(jail *diskio.Jail, record func() (*origin.Store, error)) []tool.Tool {
	outside := []string{a.results(), filepath.Join(a.Workspace, filepath.FromSlash(oldResults))}
	if share := a.untrustedRoot(); share != "" {
		outside = append(outside, share)
	}
	for _, dir := range slices.Clone(outside) {
		outside = append(outside, resolved(dir))
	}
	return files.Tools(files.Options{
		Jail:    jail,
		Virtual: skill.BuiltinFS(),
		Foreign: func(path string) bool {
			if slices.ContainsFunc(outside, func(dir string) bool { return diskio.Within(path, dir) }) {
				return true
			}
			if record == nil {
				return false
			}
			rec, err := record()
			return err != nil || rec.Foreign(path)
		},
		ForeignSum: func(sum [sha256.Size]byte) bool {
			if record == nil {
				return false
			}
			rec, err := record()
			return err != nil || rec.ForeignSum(sum)
		},
	})
}

// containment says whether commands run and what holds them, without trying it.
func (a *App) containment() string {
	p := PostureOf(a.Config)
	switch {
	case !a.Config.Config.Tools.Exec.Enable:
		return "off"
	case p.Sandbox == sandbox.None:
		return "on, without a sandbox; only rules on the text of a command apply"
	}
	return fmt.Sprintf("on, in a sandbox (%s), network: %s", p.Sandbox, p.Network)
}

// shell makes the tools that run the owner's commands.
func (a *App) shell(o Options) (*shell.Shell, error) {
	cfg, s := a.Config.Config.Tools.Exec, a.safety
	timeout := time.Duration(cfg.Timeout) * time.Second
	if cfg.Timeout == 0 {
		timeout = shell.NoTimeout
	}
	sh, err := shell.New(shell.Options{
		Confine:   func(c tool.Call, cmd *exec.Cmd) (shell.Confined, error) { return s.confineTo(a, c, cmd) },
		Workspace: a.Workspace, Restrict: s.Restrict, Roots: []string{s.media}, Timeout: timeout,
		PathPrepend: cfg.PathPrepend, PathAppend: cfg.PathAppend, AllowedEnv: cfg.AllowedEnvKeys,
		Allow: cfg.AllowPatterns, Deny: cfg.DenyPatterns, Protected: s.protected, Environ: o.Env, Log: o.Log,
		MaxMemory: s.maxMemory(cfg), MaxDisk: s.maxDisk(cfg),
		Wrap: s.confine(a), Remark: s.proxy.remark, Sandboxed: s.Sandbox != sandbox.None, AskRisky: s.Approval != approve.Off,
	})
	if err != nil {
		return nil, fmt.Errorf("tools.exec: %w", err)
	}
	return sh, nil
}

// maxMemory is what all processes of a command may use together.
func (s *safety) maxMemory(cfg config.Exec) int64 {
	switch {
	case cfg.MaxMemoryMB > 0:
		return int64(cfg.MaxMemoryMB) << 20
	case s.Sandbox == sandbox.None:
		return sandbox.HalfMemory() // as much as leaves the machine usable
	}
	return sandbox.TotalMemory()
}

// maxDisk is what a command may add to the disk. Commands without a sandbox
// write where they like, and always did.
func (s *safety) maxDisk(cfg config.Exec) int64 {
	if s.Sandbox == sandbox.None {
		return 0
	}
	return int64(cfg.MaxDiskMB) << 20
}

// limits are what the sandbox itself bounds.
func (s *safety) limits(cfg config.Exec) sandbox.Limits {
	return sandbox.Limits{Total: s.maxMemory(cfg)}
}

// webTools makes web_search and web_fetch.
func (a *App) webTools(o Options) ([]tool.Tool, error) {
	cfg := a.Config.Config.Tools
	return web.New(web.Options{
		Search: web.SearchOptions{
			Provider: cfg.Web.Search.Provider, APIKey: cfg.Web.Search.APIKey, BaseURL: cfg.Web.Search.BaseURL,
			MaxResults: cfg.Web.Search.MaxResults, Timeout: time.Duration(cfg.Web.Search.Timeout) * time.Second,
		},
		Proxy: cfg.Web.Proxy, UserAgent: cfg.Web.UserAgent, UseJinaReader: cfg.Web.Fetch.UseJinaReader,
		Allow: Networks(cfg.SSRFWhitelist), Getenv: Getenv(o.Env), Leaks: a.safety.secrets.Leaks, Log: o.Log,
		Spend: a.safety.proxy.policy.Fetch, SpendSearch: a.safety.proxy.policy.Search,
		Document: func(ctx context.Context, name string, data []byte) (string, error) {
			doc, err := document.Attachment(ctx, name, bytes.NewReader(data), int64(len(data)))
			return doc.Content, err
		},
	})
}

// pictures makes generate_image behind a jail when it is switched on. The rest
// of the agent works without it when it cannot be set up.
func (a *App) pictures(o Options, jail *diskio.Jail, media string) ([]tool.Tool, error) {
	cfg := a.Config.Config.Tools.ImageGeneration
	if !cfg.Enabled {
		return nil, nil
	}
	p := a.Config.Config.Providers[cfg.Provider]
	key := firstKey(p)
	if row, ok := catalog.Lookup(cfg.Provider); ok && key.IsZero() {
		for _, name := range row.EnvKeys {
			if v := Getenv(o.Env)(name); v != "" {
				key = httpsafe.NewSecret(v)
				break
			}
		}
	}
	t, err := newImageTool(image.Options{
		Provider: cfg.Provider, Model: cfg.Model, Key: key, Base: p.APIBase, Headers: p.ExtraHeaders,
		AspectRatio: cfg.DefaultAspectRatio, Size: cfg.DefaultImageSize, MaxPerTurn: cfg.MaxImagesPerTurn,
		Media: media, SaveDir: cfg.SaveDir, Read: func(path string) ([]byte, error) { return readWhole(jail, path) },
	}, p.Proxy.Reveal())
	if err != nil {
		return nil, err
	}
	return []tool.Tool{a.metered(t, cfg.Provider, cfg.Model)}, nil
}

// pictureTokens is about what a picture counts as where vendors count tokens.
const pictureTokens = 4096

// maxPictures is how many one call may ask for.
const maxPictures = 8

// metered counts the calls of a tool that costs money like calls of a model:
// the budget is asked before, and the record is written after.
func (a *App) metered(t tool.Tool, provider, model string) tool.Tool {
	run := t.Run
	t.Run = func(ctx context.Context, c tool.Call) (res tool.Result, err error) {
		var in struct{ Count int }
		_ = json.Unmarshal(c.Input, &in) // the tool itself says what is wrong with it
		answer := pictureTokens * max(1, min(in.Count, maxPictures))
		call := llm.ModelFunc(func(ctx context.Context, _ llm.Request) iter.Seq2[llm.Event, error] {
			return func(yield func(llm.Event, error) bool) {
				if res, err = run(ctx, c); err != nil || res.IsError {
					yield(llm.Event{}, &llm.Error{Kind: llm.InvalidRequest, Err: err})
					return
				}
				yield(llm.Event{Kind: llm.Done, Response: &llm.Response{
					Message: llm.Message{Role: llm.Assistant}, Finish: llm.FinishStop,
					Usage: llm.Usage{Prompt: len(c.Input) / 4, Completion: answer, Estimated: true},
				}}, nil)
			}
		})
		meter := ledger.Meter(call, ledger.MeterOptions{Ledger: a.models.ledger, Prices: a.models.prices, Provider: provider})
		_, merr := llm.Collect(ctx, meter, llm.Request{
			Model: model, SessionKey: c.SessionKey, Source: guestSource(c), TurnID: c.TurnID, Estimate: len(c.Input)/4 + 1, MaxTokens: answer,
		})
		if e, ok := errors.AsType[*llm.Error](merr); ok && e.Kind == llm.BudgetExceeded {
			return tool.Fail(tool.DeniedPolicy, "%s", e.Message), nil
		}
		return res, err
	}
	return t
}

// guestSource is what a call of a guest is accounted under; "" for the owner.
func guestSource(c tool.Call) string {
	if c.Scope == "" {
		return ""
	}
	return llm.GuestSource(text.SafeName(bus.Room(c.Route, c.Scope)))
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

// SentFiles is the folder of the media directory with what was sent.
const SentFiles = "sent"

// maxSent bounds a file the model may send.
const maxSent = 50 << 20

// keepMedia is openMedia for files that are sent later: what was looked at is
// copied, because a command may put something else in its place meanwhile.
// Files of the media directory stay as they are.
func (a *App) keepMedia(ctx context.Context, jail *diskio.Jail, path string) (bus.Media, error) {
	f, err := jail.Open(path)
	if err != nil {
		return bus.Media{}, err
	}
	defer f.Close() //nolint:errcheck // read only
	if path, err = jail.Path(path); err != nil || diskio.Within(path, a.safety.media) {
		return openMedia(jail, path)
	}
	name := filepath.Base(path)
	store := channel.MediaStore{Dir: filepath.Join(a.safety.media, SentFiles), Max: maxSent}
	kept, err := store.Save(ctx, name, f)
	if err != nil {
		return bus.Media{}, err
	}
	return bus.Media{Path: kept.Path, Name: name, Size: kept.Size}, nil
}

// openMedia lets the message tool attach only what the file tools may read.
func openMedia(jail *diskio.Jail, path string) (bus.Media, error) {
	f, err := jail.Open(path)
	if err != nil {
		return bus.Media{}, err
	}
	defer f.Close() //nolint:errcheck // read only
	info, err := f.Stat()
	if err != nil {
		return bus.Media{}, err
	}
	if info.Size() > maxSent {
		return bus.Media{}, errors.New("larger than 50 MiB")
	}
	if path, err = jail.Path(path); err != nil {
		return bus.Media{}, err
	}
	return bus.Media{Path: path, Name: filepath.Base(path), Size: info.Size()}, nil
}
