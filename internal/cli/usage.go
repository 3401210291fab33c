package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/llm/ledger"
	"github.com/nanobot-go/nanobot/internal/run/provider"
)

// usageJSON is written by nanobot usage --json.
type usageJSON struct {
	ledger.Summary
	Today     ledger.Spent `json:"today"`
	ThisMonth ledger.Spent `json:"thisMonth"`
}

func usageCommand(c *command) *cobra.Command {
	var by, since, job string
	var times float64
	var asJSON bool
	cmd := &cobra.Command{
		Use: "usage", Short: "Show the cost of model calls", Args: noArgs,
		Long: `usage totals the model calls: tokens, the share from the provider's cache, and the
cost. Costs are reported by the provider or come from the built-in price list;
check them against your provider's own page. Unknown prices are shown as unknown;
you can add them to prices.json next to the configuration. Limits are set under
agents.defaults.budget.`,
		Example: `  nanobot usage
  nanobot usage --by model --since 7d
  nanobot usage --by source --since 2026-01-01
  nanobot usage --job cli:report --times 30   cost of a monthly job
  nanobot usage --json | jq .total.usd`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !slices.Contains(ledger.Groups(), by) {
				groups := strings.Join(ledger.Groups(), ", ")
				if near := text.NearestRatio(by, ledger.Groups(), 0.6); near != "" {
					return usageError{fmt.Errorf("--by %s: want %s; did you mean %s?", by, groups, near)}
				}
				return usageError{fmt.Errorf("--by %s: want %s", by, groups)}
			}
			if job != "" {
				return showPreview(c, cmd, job, since, times)
			}
			return showUsage(c, cmd, by, since, asJSON)
		},
	}
	f := cmd.Flags()
	f.StringVar(&by, "by", "day", fmt.Sprintf("`group`: %s", strings.Join(ledger.Groups(), ", ")))
	f.StringVar(&since, "since", "30d", "how far back: `30d`, 12h, 4w, a date, or all")
	f.StringVar(&job, "job", "", "estimate the monthly cost of the recurring job in this `session` from its runs so far")
	f.Float64Var(&times, "times", 30, "number of runs per `month`")
	jsonFlag(cmd, &asJSON)
	_ = cmd.RegisterFlagCompletionFunc("by", cobra.FixedCompletions(ledger.Groups(), cobra.ShellCompDirectiveNoFileComp)) // the flag exists
	return cmd
}

// showPreview projects what a recurring job will cost per month.
func showPreview(c *command, cmd *cobra.Command, job, since string, times float64) error {
	if times <= 0 {
		return usageError{fmt.Errorf("--times %v: want a number above 0", times)}
	}
	loaded, err := c.load()
	if err != nil {
		return err
	}
	from, err := ledger.ParseSince(since, c.Now().In(loaded.Config.Agents.Defaults.Location()))
	if err != nil {
		return usageError{fmt.Errorf("--since %s: %w", since, err)}
	}
	runs, err := provider.OpenLedger(loaded, c.logger()).Runs(cmd.Context(), ledger.Query{Since: from, Session: job})
	if err != nil {
		return err
	}
	if len(runs) == 0 {
		return fmt.Errorf("session %q called no model in that time; nanobot usage --by session shows which did", job)
	}
	cmd.Println(ledger.Project(runs, times).Sentence().In(languageOf(cmd)))
	return nil
}

func showUsage(c *command, cmd *cobra.Command, by, since string, asJSON bool) error {
	loaded, err := c.load()
	if err != nil {
		return err
	}
	loc := loaded.Config.Agents.Defaults.Location()
	from, err := ledger.ParseSince(since, c.Now().In(loc))
	if err != nil {
		return usageError{fmt.Errorf("--since %s: %w", since, err)}
	}
	l := provider.OpenLedger(loaded, c.logger())
	s, err := l.Summarize(cmd.Context(), ledger.Query{By: by, Since: from})
	if err != nil {
		return err
	}
	if asJSON {
		today, month := l.Spent()
		return printJSON(cmd, usageJSON{s, today, month})
	}
	if s.Total.Calls == 0 {
		if from.IsZero() {
			say(cmd, "No model was called. Every call is counted in %s as it is made.\n", l.Where())
		} else {
			say(cmd, "No model was called since %s. Every call is counted in %s as it is made.\n", from.Format("2006-01-02"), l.Where())
		}
		return nil
	}
	ctx := phrase.With(cmd.Context(), languageOf(cmd))
	cmd.Print(s.Table(ctx) + "\n" + l.Balance(ctx))
	if notes := s.Notes(ctx, provider.PricesFile(loaded)); notes != "" {
		cmd.Print("\n" + notes)
	}
	return nil
}
