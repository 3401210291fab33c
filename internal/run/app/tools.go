package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/netip"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/base/document"
	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/core/turn"
	"github.com/nanobot-go/nanobot/internal/guard"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/catalog"
	"github.com/nanobot-go/nanobot/internal/run/config"
	"github.com/nanobot-go/nanobot/internal/run/provider"
	"github.com/nanobot-go/nanobot/internal/tool"
	"github.com/nanobot-go/nanobot/internal/tool/image"
	"github.com/nanobot-go/nanobot/internal/tool/web"
)

// openGuard makes what stands between the model and the machine. Everything that
// asks where a file comes from, or writes into the workspace, asks it.
func (a *App) openGuard(o Options) (err error) {
	opts := guardOptions(a.Config, a.Workspace, o.Log)
	opts.WorkspaceID = a.Sessions.Workspace().ID
	opts.Folder = o.Folder
	opts.Scopes = turn.Scopes{Sessions: a.Sessions}
	opts.Secrets = o.Secrets
	opts.Env = o.Env
	opts.Getenv = Getenv(o.Env)
	opts.Extra = func(jail *diskio.Jail, media string) ([]tool.Tool, error) { return a.pictures(o, jail, media) }
	opts.KeepSent = a.gateway
	opts.Now = o.Now
	a.guard, err = guard.New(opts)
	return err
}

// tools builds the set of tools, behind the guard.
func (a *App) tools(o Options) (_ *tool.Set, err error) {
	cfg := a.Config.Config.Tools
	var list []tool.Tool
	if !o.NoBuiltins {
		if list, err = a.builtins(o); err != nil {
			return nil, err
		}
	}

	set, err := tool.NewSet(append(list, o.Tools...)...)
	if err != nil {
		return nil, fmt.Errorf("tools: %w", err)
	}

	if !o.NoBuiltins && len(cfg.MCPServers) > 0 {
		if a.servers, err = a.mcpPool(o, set.Names()); err != nil {
			return nil, err
		}
	}
	return set, nil
}

func (a *App) builtins(o Options) ([]tool.Tool, error) {
	cfg := a.Config.Config.Tools
	var list []tool.Tool
	if cfg.File.Enable {
		list = append(list, a.guard.FileTools()...)
	}

	if a.Exec = a.guard.Policy().DescribeExec(); cfg.Exec.Enable {
		commands, err := a.guard.CommandTools()
		if err != nil {
			return nil, err
		}
		list = append(list, commands...)
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
	pictures, err := a.guard.ExtraTools()
	if err != nil {
		a.Notes = append(a.Notes, fmt.Sprintf("Pictures cannot be made: %v", err))
	}
	return append(list, pictures...), nil
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
		Allow: Networks(cfg.SSRFWhitelist), Strict: cfg.SSRF.Strict, Getenv: Getenv(o.Env), Leaks: o.Secrets.Leaks, Log: o.Log,
		Spend: a.guard.Reach().Fetch, SpendSearch: a.guard.Reach().Search,
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
	key := provider.FirstKey(p)
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
	}, p.Proxy.Reveal(), a.Config.Config.Tools.SSRF.Strict)
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
func (a *App) metered(t tool.Tool, vendor, model string) tool.Tool {
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

		meter := a.models.Meter(call, vendor)
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

func newImageTool(o image.Options, proxy string, strict bool) (tool.Tool, error) {
	var err error
	if o.Client, err = httpsafe.Client(httpsafe.Options{Proxy: proxy, Direct: o.Base != "" && httpsafe.IsLocal(o.Base)}); err != nil {
		return tool.Tool{}, err
	}
	if o.Download, err = httpsafe.Guarded(httpsafe.GuardOptions{Timeout: 2 * time.Minute, Strict: strict}); err != nil {
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

// Networks parses tools.ssrfWhitelist: networks, and addresses that stand for
// themselves. What cannot be parsed was warned about.
func Networks(list []string) []netip.Prefix {
	var out []netip.Prefix
	for _, s := range list {
		if p, err := config.ParseNetwork(s); err == nil {
			out = append(out, p)
		}
	}
	return out
}
