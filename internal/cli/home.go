package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nanobot-go/nanobot"
	"github.com/nanobot-go/nanobot/internal/run/app"
	"github.com/nanobot-go/nanobot/internal/run/config"
	"github.com/nanobot-go/nanobot/internal/run/daemon"
	"github.com/nanobot-go/nanobot/internal/run/doctor"
	"github.com/nanobot-go/nanobot/internal/run/gateway"
	"github.com/nanobot-go/nanobot/internal/run/provider"
)

// home is the configuration and the workspace that a call works with.
type home struct {
	*console
	configPath string // as the person gave it; "" is the usual place
	workspace  string // likewise
	logs       bool
	noLogs     bool
}

// options says where settings come from for this call.
func (h *home) options() config.Options {
	return config.Options{Path: h.configPath, Env: h.Env, Sections: gateway.Sections(nil)}
}

// appOptions returns what the parts of the program are built from for this call.
func (h *home) appOptions() app.Options {
	return app.Options{
		Config:    h.options(),
		Workspace: h.workspace,
		Env:       h.Env,
		Version:   nanobot.Version(),
		Log:       h.logger(),
		Now:       h.Now,
	}
}

// providerOptions returns what models are built from with a configuration.
func (h *home) providerOptions(l *config.Loaded) provider.Options {
	return app.ProviderOptions(l, h.appOptions())
}

// file returns the path of the configuration file, which may be missing.
func (h *home) file() (string, error) { return config.Locate(h.options()) }

// read reads the configuration without a word about its warnings.
func (h *home) read() (*config.Loaded, error) { return config.Load(h.options()) }

// load reads the configuration and prints its warnings.
func (h *home) load() (*config.Loaded, error) {
	l, err := h.read()
	if err != nil {
		return nil, err
	}
	h.warn(l)
	return l, nil
}

// readOptional reads the configuration, which is the default where the file is missing.
func (h *home) readOptional() (*config.Loaded, error) {
	o := h.options()
	o.Optional = true
	return config.Load(o)
}

// readLenient reads the configuration the way the gateway does.
func (h *home) readLenient() (*config.Loaded, error) {
	o := h.options()
	o.Lenient = true
	return config.Load(o)
}

// lenient is readLenient for commands about a gateway: a configuration that cannot be
// used still says where a gateway that runs is found.
func (h *home) lenient() (*config.Loaded, error) {
	l, err := h.readLenient()
	if err == nil {
		return l, nil
	}
	path, e := h.file()
	if e != nil {
		return nil, err
	}
	return &config.Loaded{Config: config.Default(), File: path, DataDir: filepath.Dir(path)}, nil
}

// readAs reads another file as if it were the configuration.
func (h *home) readAs(file string) (*config.Loaded, error) {
	o := h.options()
	o.Path = file
	return config.Load(o)
}

// inUse reads the configuration, without a word about its warnings, and finds the
// workspace.
func (h *home) inUse() (*config.Loaded, string, error) {
	l, err := h.read()
	if err != nil {
		return nil, "", err
	}
	ws, err := h.workspaceOf(l)
	return l, ws, err
}

// workspaceOf returns the workspace of the call, which may be missing.
func (h *home) workspaceOf(l *config.Loaded) (string, error) { return app.Workspace(h.workspace, l) }

// noWorkspaceError says that nanobot has not been used here yet. It is not a mistake
// of the one who asks, unless they named the workspace themselves.
type noWorkspaceError struct{ path string }

func (e noWorkspaceError) Error() string {
	return fmt.Sprintf("nothing is stored yet: the first conversation (nanobot agent) or nanobot onboard creates the workspace %s", e.path)
}

// existingWorkspace returns the workspace of the call, which must exist.
func (h *home) existingWorkspace(l *config.Loaded) (string, error) {
	ws, err := h.workspaceOf(l)
	if err != nil {
		return "", err
	}

	if _, err := os.Stat(ws); errors.Is(err, fs.ErrNotExist) {
		if h.workspace != "" {
			return "", usageError{fmt.Errorf("the workspace %s does not exist", ws)}
		}
		return "", usageError{noWorkspaceError{ws}}
	}
	return ws, nil
}

// orNothing answers a question about a home that was never used: in words, or with
// what a program gets then. It returns every other error.
func (h *home) orNothing(err error, asJSON bool, empty any, words string) error {
	if _, none := errors.AsType[noWorkspaceError](err); !none {
		return err
	}
	return h.show(asJSON, empty, func() error {
		fmt.Fprintln(h.Out, h.in(words))
		return nil
	})
}

// warn prints what is doubtful about the configuration.
func (h *home) warn(l *config.Loaded) {
	for _, w := range l.Warnings {
		h.sayErr("nanobot: warning: %s: %s\n", filepath.Base(l.File), h.known(w.String()))
	}
}

// firstLook prints once what the configuration leaves open.
func (h *home) firstLook(l *config.Loaded) {
	for _, line := range doctor.FirstLook(l) {
		fmt.Fprintln(h.Err, h.known(line))
	}
}

// logger returns where a command logs: to standard error, if logs are wanted.
func (h *home) logger() *slog.Logger {
	if !h.logs || h.noLogs {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(h.Err, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// completePresets completes names of presets.
func (h *home) completePresets(_ *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	loaded, err := h.read()
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}

	var out []string
	for name, p := range loaded.Config.ModelPresets {
		if strings.HasPrefix(name, typed) {
			out = append(out, name+"\t"+p.Model)
		}
	}

	slices.Sort(out)
	return out, cobra.ShellCompDirectiveNoFileComp
}

// findGateway returns the gateway that runs with our configuration.
func (h *home) findGateway() (daemon.Instance, error) {
	l, err := h.lenient()
	if err != nil {
		return daemon.Instance{}, err
	}

	i, err := daemon.Find(gateway.InstanceFile(l))
	if stale, ok := errors.AsType[*daemon.StaleError](err); ok {
		return i, fmt.Errorf("the gateway is not running: %w; nothing is lost, start it with: nanobot gateway start", stale)
	}
	if errors.Is(err, daemon.ErrNotRunning) {
		return i, errors.New("the gateway is not running; start it with: nanobot gateway start")
	}
	return i, err
}

// runningGateway returns the gateway of our configuration, which may be broken by
// now: the gateway goes on with the one before.
func (h *home) runningGateway() (daemon.Instance, error) {
	file, err := h.file()
	if err != nil {
		return daemon.Instance{}, err
	}
	i, err := daemon.Find(gateway.InstanceFile(&config.Loaded{DataDir: filepath.Dir(file)}))
	if errors.Is(err, daemon.ErrNotRunning) {
		return i, fmt.Errorf("the gateway is %w; start it with: nanobot gateway start", err)
	}
	return i, err
}

// openLog opens the log of the gateway: a file that rotates, and standard
// error for what a person in front of it should see.
func (h *home) openLog(l *config.Loaded, verbose, foreground bool) (log *slog.Logger, done func()) {
	cfg := l.Config.Gateway.Log
	opts := daemon.LogOptions{Level: cfg.Level, Format: cfg.Format, Components: cfg.Components, Verbose: verbose}
	file, err := daemon.OpenLog(gateway.LogFile(l), int64(cfg.MaxSizeMB)<<20, cfg.MaxFiles, h.Err)
	if err != nil {
		// A disk that cannot be written must not keep the gateway from saying so.
		h.sayErr("nanobot: %v; logging to standard error\n", err)
		return slog.New(daemon.LogHandler(h.Err, opts)), func() {}
	}

	var w io.Writer = file
	if h.logs && foreground {
		w = io.MultiWriter(file, h.Err)
	}
	return slog.New(daemon.LogHandler(w, opts)), func() { _ = file.Close() } // every write was checked
}
