package subject

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/nanobot-go/nanobot/internal/base/store"
	"github.com/nanobot-go/nanobot/internal/web"
)

// maxSidebar is how much an interface may keep about its list of conversations.
const maxSidebar = 256 << 10

// sidebarName is what the interface keeps about its list of conversations:
// pinned, archived, tags, order. It is the interface's own; we only keep it.
const sidebarName = "sidebar-state.json"

func (d *API) sidebarReads() map[string]web.Read {
	return map[string]web.Read{"webui/sidebar-state": func(ctx context.Context, _ *http.Request) (any, error) { return d.readSidebar(ctx) }}
}

func (d *API) sidebarActions() map[string]web.Action {
	return map[string]web.Action{"sidebar.update": d.writeSidebar}
}

func (d *API) readSidebar(ctx context.Context) (json.RawMessage, error) {
	data, version, err := d.Store.Doc(ctx, sidebarName)
	switch {
	case err != nil:
		return nil, err
	case version == store.Missing:
		return json.RawMessage("{}"), nil
	case !object(data):
		return nil, fmt.Errorf("%s holds no JSON object", d.Store.Where(sidebarName))
	}
	return data, nil
}

// writeSidebar keeps the state as a whole: {"state": {...}}. It returns it.
func (d *API) writeSidebar(ctx context.Context, payload json.RawMessage) (any, error) {
	var in struct {
		State json.RawMessage `json:"state"`
	}
	if err := web.Decode(payload, &in); err != nil {
		return nil, err
	}
	switch {
	case !object(in.State):
		return nil, web.Refuse(http.StatusBadRequest, "state must be an object")
	case len(in.State) > maxSidebar:
		return nil, web.Refuse(http.StatusRequestEntityTooLarge, "state is larger than %d bytes", maxSidebar)
	}
	if _, err := d.Store.Put(ctx, sidebarName, in.State, store.Any, true); err != nil {
		return nil, err
	}
	return in.State, nil
}
