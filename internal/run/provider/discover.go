package provider

import (
	"context"
	"slices"
	"strings"

	"github.com/nanobot-go/nanobot/internal/llm/catalog"
	"github.com/nanobot-go/nanobot/internal/llm/local"
)

// discovered returns a model of a server on this machine that is not configured: the
// named one, or for "" the first.
func (o Options) discovered(ctx context.Context, model string) (choice catalog.Choice, window int, ok bool) {
	for _, s := range o.servers(ctx) {
		i := 0
		if model != "" {
			i = slices.IndexFunc(s.Models, func(m local.Model) bool {
				return m.ID == model || string(s.Kind)+"/"+m.ID == model
			})
		}

		if i < 0 || i >= len(s.Models) {
			continue
		}

		row, _ := catalog.Lookup(string(s.Kind))
		why := "found on this machine at " + s.Base
		return catalog.Choice{
			Row:       row,
			Name:      row.Name,
			Base:      s.Base,
			WireModel: s.Models[i].ID,
			Step:      catalog.ByLocal,
			Why:       why,
		}, s.Models[i].Context, true
	}
	return catalog.Choice{}, 0, false
}

func (o Options) servers(ctx context.Context) []local.Server {
	return local.Discover(ctx, local.Options{Getenv: o.Getenv, Endpoints: o.Servers})
}

// Survey tells for every provider what is set up. A server that answers on this
// machine is ready without any setting.
func Survey(ctx context.Context, o Options) ([]catalog.Status, error) {
	list, err := catalog.Survey(MatchInput(o.Config, o.Getenv))
	if err != nil {
		return nil, err
	}

	for _, s := range o.servers(ctx) {
		base := strings.Replace(s.Base, "127.0.0.1", "localhost", 1)
		same := func(st catalog.Status) bool { return st.Ready && (st.Base == s.Base || st.Base == base) }
		i := slices.IndexFunc(list, func(st catalog.Status) bool { return st.Name == string(s.Kind) })
		if i >= 0 && !list[i].Ready && len(s.Models) > 0 && !slices.ContainsFunc(list, same) {
			list[i].Ready = true
			list[i].Base = s.Base
			list[i].Why = "found on this machine"
		}
	}

	return list, nil
}
