package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nanobot-go/nanobot/internal/agent"
	"github.com/nanobot-go/nanobot/internal/app"
	"github.com/nanobot-go/nanobot/internal/config"
	"github.com/nanobot-go/nanobot/internal/llm"
)

// verdict is what was found about one ability of a model.
type verdict struct {
	Ability string  `json:"ability"` // text, streaming, tools, vision
	Result  string  `json:"result"`  // yes, no, failed, skipped
	Note    string  `json:"note,omitempty"`
	Seconds float64 `json:"seconds,omitempty"`
}

// trial is what models test --json tells.
type trial struct {
	Model    string    `json:"model"`
	Provider string    `json:"provider"`
	Base     string    `json:"base,omitempty"`
	Wire     llm.Wire  `json:"wire"`
	Verdicts []verdict `json:"verdicts"`
	First    float64   `json:"first_text_seconds,omitempty"`
	Usage    llm.Usage `json:"usage"`
	Warnings []string  `json:"warnings,omitempty"`

	model  llm.Model
	choice llm.Choice
	err    error // why there is no text
}

func (c *command) modelsTest() *cobra.Command {
	var asJSON, vision bool
	cmd := &cobra.Command{
		Use: "test [MODEL]", Short: "Test what a model can do, with a few small calls", Args: atMostOne,
		Long: `test asks a model (or a preset, or the configured model) for a few words, for a
tool call and, if it supports images, for the colour of a small image. It prints
the result and the duration of each call. The calls cost a fraction of a cent.`,
		Example: `  nanobot models test
  nanobot models test claude-sonnet-4-6
  nanobot models test ollama/gemma3:4b --vision`,
		ValidArgsFunction: c.presetNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			loaded, err := c.load()
			if err != nil {
				return err
			}
			t, err := c.newTrial(loaded, args)
			if err != nil {
				return err
			}
			if !asJSON {
				cmd.Printf("Testing %s at %s (%s)\n", t.choice.WireModel, t.Provider, cmp.Or(t.Base, "by region"))
			}
			claim := c.claims(cmd.Context(), loaded, t.choice, vision)
			t.warnOfWindow(claim.Window, loaded.Config.Agents.Defaults.ContextWindowTokens)
			t.run(cmd.Context(), claim, func(v verdict) {
				if !asJSON {
					printVerdict(cmd, v)
				}
			})
			if cmd.Context().Err() != nil {
				return cmd.Context().Err()
			}
			if t.err != nil {
				c.suggest(cmd.Context(), loaded, t)
			}
			return tellTrial(cmd, t, asJSON)
		},
	}
	cmd.Flags().BoolVar(&vision, "vision", false, "send an image even if the model is not known to support images")
	cmd.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return cmd
}

// newTrial finds the model to try: the named one, a preset, or the configured one.
func (c *command) newTrial(loaded *config.Loaded, args []string) (*trial, error) {
	in := c.matchInput(loaded)
	d := loaded.Config.Agents.Defaults
	name := d.ModelPreset
	if len(args) == 1 {
		name = args[0]
	}
	if p, ok := loaded.Config.ModelPresets[name]; ok {
		in.Model, in.Provider = p.Model, p.Provider
	} else if len(args) == 1 {
		in.Model = name
	} else if in.Provider = d.Provider; loaded.IsSet("agents.defaults.model") || len(loaded.Config.Providers) > 0 {
		in.Model = d.Model
	}
	choice, err := llm.Match(in)
	if err != nil {
		return nil, err
	}
	model, err := c.openModel(loaded, choice)
	if err != nil {
		return nil, err
	}
	return &trial{
		Model: cmp.Or(in.Model, choice.Name+"/"+choice.WireModel), Provider: choice.Name, Base: choice.Base, Wire: choice.Wires("")[0],
		Warnings: choice.Warnings, model: model, choice: choice,
	}, nil
}

// claims is what the model is said to do: by the user, by the provider's list
// when it has one, or by its name.
func (c *command) claims(ctx context.Context, loaded *config.Loaded, choice llm.Choice, vision bool) llm.Offer {
	claim := llm.Offer{Vision: llm.Vision(choice.WireModel)}
	offers, _ := app.ListModels(ctx, loaded, choice) // many have no list, which says nothing about the model
	if i := slices.IndexFunc(offers, func(o llm.Offer) bool { return o.ID == choice.WireModel }); i >= 0 {
		claim.Window = offers[i].Window
		claim.Tools = cmp.Or(offers[i].Tools, claim.Tools)
		claim.Vision = cmp.Or(offers[i].Vision, claim.Vision)
	}
	var caps struct{ Vision, Tools *bool }
	if raw := loaded.Config.Providers[choice.Block].Caps.JSON(); len(raw) > 0 && json.Unmarshal(raw, &caps) == nil {
		claim.Vision, claim.Tools = said(caps.Vision, claim.Vision), said(caps.Tools, claim.Tools)
	}
	if vision {
		claim.Vision = llm.Able
	}
	return claim
}

func said(yes *bool, otherwise llm.Ability) llm.Ability {
	switch {
	case yes == nil:
		return otherwise
	case *yes:
		return llm.Able
	}
	return llm.Unable
}

// warnOfWindow tells of a server that forgets the beginning of long prompts.
func (t *trial) warnOfWindow(loaded, wanted int) {
	if t.choice.Row.Truncates && loaded > 0 && loaded < wanted {
		t.Warnings = append(t.Warnings, fmt.Sprintf(
			"%s has loaded it with a window of %d tokens and drops the beginning of longer prompts without an error; raise OLLAMA_CONTEXT_LENGTH or num_ctx, or set agents.defaults.contextWindowTokens to %d",
			t.choice.Row.Display, loaded, loaded))
	}
}

// run makes the calls. A model that gives no text is asked nothing else.
func (t *trial) run(ctx context.Context, claim llm.Offer, tell func(verdict)) {
	say := func(v verdict) {
		t.Verdicts = append(t.Verdicts, v)
		tell(v)
	}
	if t.text(ctx, say); t.err != nil || ctx.Err() != nil {
		return
	}
	if claim.Tools == llm.Unable {
		say(verdict{Ability: "tools", Result: "skipped", Note: "it is reported not to support tools"})
	} else {
		say(t.tools(ctx))
	}
	switch claim.Vision {
	case llm.Able:
		say(t.vision(ctx))
	case llm.Unable:
		say(verdict{Ability: "vision", Result: "skipped", Note: "it is reported not to support images; --vision tests it"})
	default:
		say(verdict{Ability: "vision", Result: "skipped", Note: "it is not known to support images; --vision tests it"})
	}
}

// answerTokens leaves room for models that think before they say a word.
const answerTokens = 1024

// ask makes one call and reports when the first text came and in how many pieces.
func (t *trial) ask(ctx context.Context, req llm.Request) (resp llm.Response, first time.Duration, pieces int, err error) {
	req.Model, req.MaxTokens, req.Source = t.choice.WireModel, answerTokens, "test"
	start := time.Now()
	for ev, err := range t.model.Stream(ctx, req) {
		switch {
		case err != nil:
			return resp, first, pieces, err
		case ev.Kind == llm.TextDelta:
			if pieces++; pieces == 1 {
				first = time.Since(start)
			}
		case ev.Kind == llm.Done:
			resp = *ev.Response
		}
	}
	t.Usage = t.Usage.Add(resp.Usage)
	return resp, first, pieces, nil
}

func userSays(content llm.Content) []llm.Message {
	return []llm.Message{{Role: llm.User, Content: content}}
}

func (t *trial) text(ctx context.Context, say func(verdict)) {
	start := time.Now()
	resp, first, pieces, err := t.ask(ctx, llm.Request{Messages: userSays(llm.Text("Count from 1 to 9, separated by spaces. Write nothing else."))})
	took := time.Since(start).Seconds()
	words := strings.TrimSpace(resp.Message.Content.String())
	switch {
	case err != nil:
		t.err = err
		say(verdict{Ability: "text", Result: "failed", Note: agent.Explain(err, t.Model)})
		return
	case words == "":
		t.err = &llm.Error{Kind: llm.Empty, Provider: t.Provider, Message: "no text came back"}
		note := "no text came back"
		if resp.Finish == llm.FinishLength {
			note = fmt.Sprintf("all of %d tokens went into thinking", answerTokens)
		}
		say(verdict{Ability: "text", Result: "failed", Note: note, Seconds: took})
		return
	}
	t.First = first.Seconds()
	say(verdict{Ability: "text", Result: "yes", Note: fmt.Sprintf("%q", oneLine(words, 40)), Seconds: took})
	if pieces > 1 {
		say(verdict{Ability: "streaming", Result: "yes", Note: fmt.Sprintf("%d pieces, the first after %.1f s", pieces, t.First)})
	} else {
		say(verdict{Ability: "streaming", Result: "no", Note: "the text came in one piece"})
	}
}

func (t *trial) tools(ctx context.Context) verdict {
	v := verdict{Ability: "tools", Result: "no"}
	start := time.Now()
	resp, _, _, err := t.ask(ctx, llm.Request{
		Messages: userSays(llm.Text("Add 17 and 25 with the tool.")),
		Tools: []llm.ToolDef{{
			Name: "add", Description: "Add two whole numbers.",
			Schema: json.RawMessage(`{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}},"required":["a","b"]}`),
		}},
	})
	v.Seconds = time.Since(start).Seconds()
	if err != nil {
		v.Result, v.Note = "failed", agent.Explain(err, t.Model)
		return v
	}
	if len(resp.Message.ToolCalls) == 0 {
		v.Note = "it answered in words instead of calling the tool"
		return v
	}
	call := resp.Message.ToolCalls[0]
	var sum struct{ A, B json.Number }
	switch {
	case call.Name != "add":
		v.Note = fmt.Sprintf("it called %q, which does not exist", oneLine(call.Name, 40))
	case json.Unmarshal([]byte(call.Arguments), &sum) != nil, sum.A.String() != "17" || sum.B.String() != "25":
		v.Note = "it called the tool with wrong arguments: " + oneLine(call.Arguments, 60)
	default:
		v.Result, v.Note = "yes", "add(17, 25)"
	}
	return v
}

func (t *trial) vision(ctx context.Context) verdict {
	v := verdict{Ability: "vision", Result: "no"}
	start := time.Now()
	resp, _, _, err := t.ask(ctx, llm.Request{Messages: userSays(llm.Content{Blocks: []llm.Block{
		{Type: "text", Text: "Which colour fills this image? Answer with one English word."},
		{Type: "image_url", ImageURL: "data:image/png;base64," + redSquare},
	}})})
	v.Seconds = time.Since(start).Seconds()
	words := strings.TrimSpace(resp.Message.Content.String())
	switch {
	case err != nil && llm.AsError(err).Kind == llm.UnsupportedImage:
		v.Note = "the provider refuses images for this model"
	case err != nil:
		v.Result, v.Note = "failed", agent.Explain(err, t.Model)
	case strings.Contains(strings.ToLower(words), "red"):
		v.Result, v.Note = "yes", "it saw the red square"
	default:
		v.Note = fmt.Sprintf("it was shown a red square and said %q", oneLine(words, 40))
	}
	return v
}

// redSquare is a PNG of 64 by 64 red pixels. Smaller ones are refused by some
// vendors.
const redSquare = "iVBORw0KGgoAAAANSUhEUgAAAEAAAABAAQMAAACQp+OdAAAAA1BMVEXcFBQXnfKmAAAAD0lEQVR42mNgGAWjgHwAAAJAAAHgTR1EAAAAAElFTkSuQmCC"

// suggest names models that may have been meant when there is none of the name.
func (c *command) suggest(ctx context.Context, loaded *config.Loaded, t *trial) {
	if llm.AsError(t.err).Kind != llm.NotFound {
		return
	}
	offers, err := app.ListModels(ctx, loaded, t.choice)
	if err != nil {
		return
	}
	if near := llm.NearestModels(t.choice.WireModel, offers, 3); len(near) > 0 {
		t.Warnings = append(t.Warnings, "it offers "+strings.Join(near, ", "))
	}
}

func printVerdict(cmd *cobra.Command, v verdict) {
	mark := map[string]string{"yes": "✓", "no": "✗", "failed": "✗", "skipped": "-"}[v.Result]
	took := ""
	if v.Seconds > 0 {
		took = fmt.Sprintf(" (%.1f s)", v.Seconds)
	}
	cmd.Printf("  %s %-10s %s%s\n", mark, v.Ability, strings.ReplaceAll(v.Note, "\n", "\n               "), took)
}

func tellTrial(cmd *cobra.Command, t *trial, asJSON bool) error {
	if asJSON {
		if err := writeJSON(cmd.OutOrStdout(), t); err != nil {
			return err
		}
	} else {
		if u := t.Usage; u.Prompt+u.Completion > 0 {
			cmd.Printf("  Tokens: %d in, %d out\n", u.Prompt, u.Completion)
		}
		for _, w := range t.Warnings {
			cmd.Printf("  Note: %s\n", w)
		}
	}
	if t.err != nil {
		return failure{kindCode(llm.AsError(t.err).Kind)}
	}
	return nil
}
