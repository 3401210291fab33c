package provider

import (
	"log/slog"

	"github.com/nanobot-go/nanobot/internal/base/datadir"
	"github.com/nanobot-go/nanobot/internal/base/store"
	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/llm/catalog"
	"github.com/nanobot-go/nanobot/internal/llm/ledger"
	"github.com/nanobot-go/nanobot/internal/run/config"
)

// OpenLedger opens the record of what model calls cost, with the limits of
// the configuration. It does no I/O.
func OpenLedger(loaded *config.Loaded, log *slog.Logger) *ledger.Ledger {
	return openLedger(Options{Config: loaded, Log: log})
}

func openLedger(o Options) *ledger.Ledger {
	return ledger.New(ledger.Options{
		Store: store.Under(disk.Open(o.Config.DataDir, o.Log), string(datadir.Usage)), Limits: spendingLimits(o.Config),
		Location: o.Config.Config.Agents.Defaults.Location(), Watch: o.Watch, Now: o.Now, Log: o.Log,
	})
}

// PricesFile returns the path of the user's own price table.
func PricesFile(loaded *config.Loaded) string { return datadir.Prices.In(loaded.DataDir) }

// spendingLimits returns the limits of a configuration. Those that its file does not
// set are not the user's choice.
func spendingLimits(loaded *config.Loaded) ledger.Limits {
	const section = "agents.defaults.budget."
	b := loaded.Config.Agents.Defaults.Budget
	lim := ledger.Limits{
		DailyUSD:            b.DailyUSD,
		MonthlyUSD:          b.MonthlyUSD,
		TurnUSD:             b.TurnUSD,
		DailyTokens:         b.DailyTokens,
		UnpricedDailyTokens: b.UnpricedDailyTokens,
		GuestShare:          b.GuestShare,
		PerGuestShare:       b.PerGuestShare,
		WarnAt:              b.WarnAt,
		OnExceed:            ledger.OnExceed(b.OnExceed),
		PerSession:          ledger.SourceLimits{DailyUSD: b.PerSession.DailyUSD, DailyTokens: b.PerSession.DailyTokens},
		PerSource:           make(map[string]ledger.SourceLimits, len(b.PerSource)),
	}
	for name, s := range b.PerSource {
		lim.PerSource[name] = ledger.SourceLimits{DailyUSD: s.DailyUSD, DailyTokens: s.DailyTokens}
	}

	for _, name := range []string{"dailyUsd", "unpricedDailyTokens"} { // those with a default
		if loaded.Exists && !loaded.IsSet(section+name) && !loaded.IsSet(section+"onExceed") {
			lim.Usual = append(lim.Usual, name)
		}
	}
	return lim
}

// OpenFacts opens the table of what models can do. The user's own rows come first.
func OpenFacts(loaded *config.Loaded) *catalog.Facts {
	return catalog.NewFacts(datadir.Models.In(loaded.DataDir))
}

// OpenPrices opens the price table. The user's own prices come first.
func OpenPrices(loaded *config.Loaded, log *slog.Logger) *ledger.Prices {
	return ledger.NewPrices(PricesFile(loaded), log)
}
