package app

import (
	"github.com/nanobot-go/nanobot/internal/webui"
)

// mcpActions change MCP servers.
func (g *Gateway) mcpActions() map[string]webui.Action { return nil }
