package cli

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/trial"
	"github.com/nanobot-go/nanobot/internal/run/provider"
)

func modelsTest(c *command) *cobra.Command {
	var asJSON, vision bool
	cmd := &cobra.Command{
		Use: "test [MODEL]", Short: "Test what a model can do, with a few small calls", Args: atMost(1),
		Long: `test asks a model (or a preset, or the configured model) for a few words, for a
tool call and, if it supports images, for the colour of a small image. It prints
the result and the duration of each call. The calls cost a fraction of a cent.`,
		Example: `  nanobot models test
  nanobot models test claude-sonnet-4-6
  nanobot models test ollama/gemma3:4b --vision`,
		ValidArgsFunction: c.complete(presetNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			loaded, err := c.load()
			if err != nil {
				return err
			}
			name := ""
			if len(args) == 1 {
				name = args[0]
			}
			t, err := provider.OpenTrial(cmd.Context(), c.providerOptions(loaded), name)
			if err != nil {
				return err
			}
			if !asJSON {
				say(cmd, "Testing %s at %s (%s)\n", t.Choice().WireModel, t.Provider, cmp.Or(t.Base, words(cmd, "by region")))
			}
			err = provider.RunTrial(cmd.Context(), loaded, t, vision, func(v trial.Verdict) {
				if !asJSON {
					printVerdict(cmd, v)
				}
			})
			if err != nil {
				return err
			}
			return tellTrial(cmd, t, asJSON)
		},
	}
	cmd.Flags().BoolVar(&vision, "vision", false, "send an image even if the model is not known to support images")
	jsonFlag(cmd, &asJSON)
	return cmd
}

func printVerdict(cmd *cobra.Command, v trial.Verdict) {
	mark := map[string]string{"yes": "✓", "no": "✗", "failed": "✗", "skipped": "-"}[v.Result]
	took := ""
	if v.Seconds > 0 {
		took = fmt.Sprintf(" (%.1f s)", v.Seconds)
	}
	cmd.Printf("  %s %-10s %s%s\n", mark, v.Ability, strings.ReplaceAll(known(cmd, v.Note), "\n", "\n               "), took)
}

func tellTrial(cmd *cobra.Command, t *trial.Trial, asJSON bool) error {
	if asJSON {
		if err := printJSON(cmd, t); err != nil {
			return err
		}
	} else {
		if u := t.Usage; u.Prompt+u.Completion > 0 {
			say(cmd, "  Tokens: %d in, %d out\n", u.Prompt, u.Completion)
		}
		for _, w := range t.Warnings {
			say(cmd, "  Note: %s\n", known(cmd, w))
		}
	}
	if err := t.Err(); err != nil {
		return failure{kindCode(llm.AsError(err).Kind)}
	}
	return nil
}
