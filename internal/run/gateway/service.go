package gateway

import (
	"cmp"
	"os"
	"path/filepath"
	"strconv"

	"github.com/nanobot-go/nanobot/internal/base/datadir"
	"github.com/nanobot-go/nanobot/internal/run/app"
	"github.com/nanobot-go/nanobot/internal/run/config"
	"github.com/nanobot-go/nanobot/internal/run/daemon"
)

// UnitOptions say how a service runs the gateway.
type UnitOptions struct {
	Config    config.Options
	Workspace string // "" is the configured one
	User      string // of a service of the machine
	Log       string // of launchd: name of a file in the folder of logs
	Port      int    // negative: the configured one
	Host      string // "" is the configured one
	Env       []string
}

// ServiceUnit describes the gateway as a service.
func ServiceUnit(m daemon.Manager, f UnitOptions) (daemon.Service, *config.Loaded, error) {
	getenv := app.Getenv(f.Env)
	u := daemon.Service{Name: m.Label(), About: "nanobot gateway", System: m.System}
	o := f.Config
	o.Lenient = true

	if m.System {
		owner, err := daemon.ServiceOwner(cmp.Or(f.User, getenv("SUDO_USER")))
		if err != nil {
			return u, nil, err
		}
		u.User, m.Home, o.Home = owner.Username, owner.HomeDir, owner.HomeDir
	}

	l, err := config.Load(o)
	if err != nil {
		return u, nil, err
	}

	exe, err := os.Executable()
	if err != nil {
		return u, nil, err
	}

	u.Command = []string{exe, "gateway", "--launch-mode", "service"}
	ws := l.Workspace()
	// The variables of this shell that lead to the configuration are not there.
	home := getenv("NANOBOT_HOME")
	if f.Config.Path != "" || getenv("NANOBOT_CONFIG") != "" || home != "" {
		u.Command = append(u.Command, "-c", l.File)
	}

	if home != "" {
		file, err := config.Locate(config.Options{Home: o.Home, Env: []string{"NANOBOT_HOME=" + home}})
		if err != nil {
			return u, nil, err
		}
		u.Env = append(u.Env, "NANOBOT_HOME="+filepath.Dir(file))
	}

	if f.Workspace != "" {
		if ws, err = app.Workspace(f.Workspace, l); err != nil {
			return u, nil, err
		}
		u.Command = append(u.Command, "-w", ws)
	}

	if f.Port >= 0 {
		u.Command = append(u.Command, "--port", strconv.Itoa(f.Port))
	}
	if f.Host != "" {
		u.Command = append(u.Command, "--host", f.Host)
	}

	u.Folder, u.Write = m.Home, []string{l.DataDir, ws}
	// Programs the agent and MCP servers need are found as in this shell.
	if p := getenv("PATH"); p != "" && !m.System {
		u.Env = append(u.Env, "PATH="+p)
	}
	if m.OS == "darwin" {
		u.Log = datadir.Logs.In(l.DataDir, f.Log)
	}
	return u, l, nil
}
