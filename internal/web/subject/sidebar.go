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

// Sidebar is what the interface keeps about its list of conversations.
type Sidebar struct{ Store store.Store }

// Routes implements web.Subject.
func (s Sidebar) Routes() web.Routes {
	return web.Routes{
		Reads:   map[string]web.Read{"webui/sidebar-state": s.read},
		Actions: map[string]web.Action{"sidebar.update": web.Changing(s.write, web.TopicSessions)},
	}
}

func (s Sidebar) read(ctx context.Context, _ *http.Request) (any, error) {
	data, version, err := s.Store.Doc(ctx, sidebarName)
	switch {
	case err != nil:
		return nil, err
	case version == store.Missing:
		return json.RawMessage("{}"), nil
	case !object(data):
		return nil, fmt.Errorf("%s holds no JSON object", s.Store.Where(sidebarName))
	}

	return json.RawMessage(data), nil
}

// write keeps the state as a whole: {"state": {...}}. It returns it.
func (s Sidebar) write(ctx context.Context, payload json.RawMessage) (any, error) {
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

	if _, err := s.Store.Put(ctx, sidebarName, in.State, store.Any, true); err != nil {
		return nil, err
	}
	return in.State, nil
}
