package webui

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"sync"

	"github.com/nanobot-go/nanobot/internal/diskio"
)

// maxSidebar is how much an interface may keep about its list of conversations.
const maxSidebar = 256 << 10

// sidebar is what the interface keeps about its list of conversations: pinned,
// archived, tags, order. It is the interface's own; we only keep it.
type sidebar struct{ mu sync.Mutex }

func (d *API) sidebarReads() map[string]Read {
	return map[string]Read{"webui/sidebar-state": func(context.Context, *http.Request) (any, error) { return d.readSidebar() }}
}

func (d *API) sidebarActions() map[string]Action {
	return map[string]Action{"sidebar.update": d.writeSidebar}
}

func (d *API) sidebarFile() string { return filepath.Join(d.Dir, "sidebar-state.json") }

func (d *API) readSidebar() (json.RawMessage, error) {
	data, err := os.ReadFile(d.sidebarFile())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return json.RawMessage("{}"), nil
	case err != nil:
		return nil, err
	case !object(data):
		return nil, fmt.Errorf("%s holds no JSON object", d.sidebarFile())
	}
	return data, nil
}

// writeSidebar keeps the state as a whole: {"state": {...}}. It returns it.
func (d *API) writeSidebar(_ context.Context, payload json.RawMessage) (any, error) {
	var in struct {
		State json.RawMessage `json:"state"`
	}
	if err := decode(payload, &in); err != nil {
		return nil, err
	}
	switch {
	case !object(in.State):
		return nil, Refuse(http.StatusBadRequest, "state must be an object")
	case len(in.State) > maxSidebar:
		return nil, Refuse(http.StatusRequestEntityTooLarge, "state is larger than %d bytes", maxSidebar)
	}
	d.sidebar.mu.Lock()
	defer d.sidebar.mu.Unlock()
	if err := os.MkdirAll(d.Dir, 0o700); err != nil {
		return nil, err
	}
	if err := diskio.WriteFile(d.sidebarFile(), in.State, 0o600); err != nil {
		return nil, err
	}
	return in.State, nil
}

// object reports whether data is a JSON object.
func object(data []byte) bool {
	var o map[string]json.RawMessage
	return json.Unmarshal(data, &o) == nil && o != nil
}
