package gateway

import (
	"context"
	"encoding/json"

	"github.com/nanobot-go/nanobot/internal/config"
	"github.com/nanobot-go/nanobot/internal/webui"
)

// SettingsDesk is a desk with the settings of a gateway only.
func SettingsDesk(g *Gateway) *webui.API {
	return webui.New(webui.Options{Reads: g.settingsReads(), Actions: g.settingsActions(), Log: g.log})
}

// ChangeSettings changes settings by a merge patch; during is called while it
// is being made.
func ChangeSettings(ctx context.Context, g *Gateway, patch string, during func()) error {
	_, err := g.change(ctx, edit{make: always(json.RawMessage(patch)), check: func(*config.Loaded) error {
		during()
		return nil
	}})
	return err
}
