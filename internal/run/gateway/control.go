package gateway

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/datadir"
	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/run/config"
	"github.com/nanobot-go/nanobot/internal/run/daemon"
)

// InstanceFile describes the gateway that runs with a configuration.
func InstanceFile(l *config.Loaded) string { return datadir.GatewayFile.In(l.DataDir) }

// LastGood is the configuration of the last start, if it says that it may be
// used in the place of one that is broken; else nil.
func LastGood(o config.Options) *config.Loaded {
	path, err := config.Locate(o)
	if err != nil {
		return nil
	}
	o.Path = datadir.LastGood.In(filepath.Dir(path))
	l, err := config.Load(o)
	if err != nil || l.Config.Gateway.BootFallback != "last-good" {
		return nil
	}
	return l
}

// LogFile is where the gateway writes what it does.
func LogFile(l *config.Loaded) string {
	return cmp.Or(l.Config.Gateway.Log.File, datadir.Logs.In(l.DataDir, "gateway.log"))
}

// controlPath is the local socket through which commands of the same user talk
// to a running gateway.
func controlPath(dataDir string) string { return datadir.GatewaySock.In(dataDir) }

// listenControl opens the socket, which only we and our user can use. The
// journal's lock is ours, so whatever lies there belongs to nobody.
func listenControl(dataDir string) (net.Listener, error) {
	path := controlPath(dataDir)
	dir := filepath.Dir(path)
	if err := diskio.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := os.Chmod(dir, 0o700); err != nil { //nolint:gosec // a folder
		return nil, err
	}
	if err := os.Remove(path); err != nil && !diskio.IsMissing(err) {
		return nil, err
	}
	return httpsafe.ListenLocal(path)
}

// control answers the commands of the same user.
func (g *Gateway) control() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, r *http.Request) {
		s := g.Status()
		s.Jobs = g.Jobs(r.Context())
		answer(w, s, nil)
	})
	mux.HandleFunc("POST /reload", func(w http.ResponseWriter, r *http.Request) { answer(w, struct{}{}, g.Reload(r.Context())) })
	mux.HandleFunc("POST /restart", func(w http.ResponseWriter, _ *http.Request) {
		g.o.Restart(bus.Route{})
		answer(w, struct{}{}, nil)
	})
	g.accounts.routes(mux)
	g.pages.routes(mux)
	return mux
}

func answer(w http.ResponseWriter, v any, err error) {
	w.Header().Set("Content-Type", "application/json")
	if err != nil {
		w.WriteHeader(http.StatusUnprocessableEntity)
		v = map[string]string{"error": err.Error()}
	}
	_ = json.NewEncoder(w).Encode(v) // nobody is left to tell
}

// Control talks to the gateway that runs with a configuration. It returns an
// error that is daemon.ErrNotRunning if there is none.
func Control(ctx context.Context, l *config.Loaded, method, path string, in, out any) error {
	ctx, cancel := context.WithTimeout(ctx, controlWait)
	defer cancel()
	body, err := startControl(ctx, l, method, path, in)
	if err != nil {
		return err
	}
	defer body.Close() //nolint:errcheck // only read
	if out == nil {
		return nil
	}
	return json.NewDecoder(io.LimitReader(body, controlMost)).Decode(out)
}

const controlMost = 16 << 20 // bytes of an answer

// startControl makes a request and returns the answer, which the caller closes.
func startControl(ctx context.Context, l *config.Loaded, method, path string, in any) (io.ReadCloser, error) {
	var body io.Reader
	if in != nil {
		data, err := json.Marshal(in)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://gateway"+path, body)
	if err != nil {
		return nil, err
	}
	resp, err := httpsafe.Local(controlPath(l.DataDir), 0).Do(req)
	if err != nil {
		if _, gone := errors.AsType[*net.OpError](err); gone {
			return nil, fmt.Errorf("the gateway is %w: start it with: nanobot gateway", daemon.ErrNotRunning)
		}
		return nil, err
	}
	if resp.StatusCode == http.StatusOK {
		return resp.Body, nil
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	var e struct{ Error string }
	if json.NewDecoder(io.LimitReader(resp.Body, controlMost)).Decode(&e) != nil || e.Error == "" {
		e.Error = resp.Status
	}
	return nil, errors.New(e.Error)
}

// controlWait is longer than an agent may take to end its turns.
const controlWait = 2 * time.Minute
