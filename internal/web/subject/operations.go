package subject

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"runtime"

	"github.com/nanobot-go/nanobot/internal/web"
)

// Operations are the running gateway, for the owner.
type Operations struct {
	Status  func(ctx context.Context) any // what nanobot gateway status shows
	Reload  func(ctx context.Context) error
	Restart func()
	// Backup writes a backup without credentials to a file in a new folder.
	Backup  func(ctx context.Context) (file string, err error)
	Promise func(read string) string // an address for one download of a read, which begins with /api/
	Log     Log
}

// Routes implements web.Subject.
func (o Operations) Routes() web.Routes {
	return web.Routes{
		Reads:   map[string]web.Read{"status": o.status, "backup": o.backup},
		Actions: map[string]web.Action{"gateway.reload": web.Changing(o.reload), "gateway.restart": web.Changing(o.restart), "download.create": web.Changing(o.promise)},
	}
}

// lastErrors is how many errors of the log the status shows.
const lastErrors = 5

func (o Operations) status(ctx context.Context, _ *http.Request) (any, error) {
	last, err := o.Log.page(ctx, logQuery{level: severity("error"), limit: lastErrors})
	if err != nil {
		return nil, err
	}
	return map[string]any{"gateway": o.Status(ctx), "memory_bytes": memoryInUse(), "errors": last.Lines}, nil
}

func (o Operations) backup(ctx context.Context, _ *http.Request) (any, error) {
	return served(ctx, "application/gzip", o.Backup)
}

func (o Operations) reload(ctx context.Context, payload json.RawMessage) (any, error) {
	if err := web.Decode(payload, &struct{}{}); err != nil {
		return nil, err
	}
	if err := o.Reload(ctx); err != nil {
		return nil, web.Refuse(http.StatusUnprocessableEntity, "the new configuration is not used: %v", err)
	}
	return struct{}{}, nil
}

func (o Operations) restart(_ context.Context, payload json.RawMessage) (any, error) {
	if err := web.Decode(payload, &struct{}{}); err != nil {
		return nil, err
	}
	o.Restart()
	return struct{}{}, nil
}

// promise makes an address under which a read can be downloaded once.
func (o Operations) promise(_ context.Context, payload json.RawMessage) (any, error) {
	var in struct {
		Read string `json:"read"`
	}
	if err := web.Decode(payload, &in); err != nil {
		return nil, err
	}
	if in.Read == "" || path.Clean("/"+in.Read) != "/"+in.Read {
		return nil, web.Refuse(http.StatusBadRequest, "the payload does not fit: %s", "read must name a read, such as backup")
	}
	return map[string]string{"url": o.Promise("/api/" + in.Read)}, nil
}

// memoryInUse returns what the program has of the machine's memory, in bytes.
func memoryInUse() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m) // runtime/metrics would work at every start of the program
	return m.Sys - m.HeapReleased
}

// served returns a file that is made for one download, in a folder of its own, and
// removed with the folder after it.
func served(ctx context.Context, kind string, create func(context.Context) (string, error)) (any, error) {
	path, err := create(ctx)
	if err != nil {
		return nil, err
	}
	return web.Download{Name: filepath.Base(path), MIME: kind, Write: func(w io.Writer) error {
		defer os.RemoveAll(filepath.Dir(path)) //nolint:errcheck // it is in a folder of ours, and private
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close() //nolint:errcheck // only read
		_, err = io.Copy(w, f)
		return err
	}}, nil
}
