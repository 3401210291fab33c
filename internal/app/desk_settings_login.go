package app

import (
	"github.com/nanobot-go/nanobot/internal/webui"
)

// loginActions sign in at providers and MCP servers.
func (g *Gateway) loginActions() map[string]webui.Action { return nil }
