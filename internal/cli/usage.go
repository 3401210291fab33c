package cli

import (
	"context"
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

// usageCommand is nanobot usage.
type usageCommand struct {
	*console
	home *home
}

func (c *usageCommand) command() *cobra.Command {
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
				return c.preview(cmd.Context(), job, since, times)
			}
			return c.summarize(cmd.Context(), by, since, asJSON)
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

// preview projects what a recurring job will cost per month.
func (c *usageCommand) preview(ctx context.Context, job, since string, times float64) error {
	if times <= 0 {
		return usageError{fmt.Errorf("--times %v: want a number above 0", times)}
	}

	loaded, err := c.home.load()
	if err != nil {
		return err
	}

	from, err := ledger.ParseSince(since, c.Now().In(loaded.Config.Agents.Defaults.Location()))
	if err != nil {
		return usageError{fmt.Errorf("--since %s: %w", since, err)}
	}

	runs, err := provider.OpenLedger(loaded, c.home.logger()).Runs(ctx, ledger.Query{Since: from, Session: job})
	if err != nil {
		return err
	}
	if len(runs) == 0 {
		return fmt.Errorf("session %q called no model in that time; nanobot usage --by session shows which did", job)
	}

	fmt.Fprintln(c.Out, ledger.Project(runs, times).Sentence().In(c.language))
	return nil
}

func (c *usageCommand) summarize(ctx context.Context, by, since string, asJSON bool) error {
	loaded, err := c.home.load()
	if err != nil {
		return err
	}

	loc := loaded.Config.Agents.Defaults.Location()
	from, err := ledger.ParseSince(since, c.Now().In(loc))
	if err != nil {
		return usageError{fmt.Errorf("--since %s: %w", since, err)}
	}

	l := provider.OpenLedger(loaded, c.home.logger())
	s, err := l.Summarize(ctx, ledger.Query{By: by, Since: from})
	if err != nil {
		return err
	}

	today, month := l.Spent()
	return c.show(asJSON, usageJSON{s, today, month}, func() error {
		if s.Total.Calls == 0 {
			if from.IsZero() {
				c.say("No model was called. Every call is counted in %s as it is made.\n", l.Where())
			} else {
				c.say("No model was called since %s. Every call is counted in %s as it is made.\n", from.Format("2006-01-02"), l.Where())
			}
			return nil
		}

		ctx := phrase.With(ctx, c.language)
		fmt.Fprint(c.Out, s.Table(ctx)+"\n"+l.Balance(ctx))
		if notes := s.Notes(ctx, provider.PricesFile(loaded)); notes != "" {
			fmt.Fprint(c.Out, "\n"+notes)
		}
		return nil
	})
}
