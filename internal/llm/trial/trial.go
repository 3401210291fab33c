// Package trial hides how the abilities of a model are found out: a few tiny calls
// for text, streaming, tools and images. A Trial makes them and holds a Verdict for
// each ability, so that a claim of the catalog can be compared with what the model
// did. The calls cost tokens; Trial.Usage counts them.
package trial

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/catalog"
)

// Verdict holds what was found about one ability of a model.
type Verdict struct {
	Ability string  `json:"ability"` // text, streaming, tools, vision
	Result  string  `json:"result"`  // yes, no, failed, skipped
	Note    string  `json:"note,omitempty"`
	Seconds float64 `json:"seconds,omitempty"`
}

// Trial tries out one model. Its exported fields are the report.
type Trial struct {
	Model    string       `json:"model"`
	Provider string       `json:"provider"`
	Base     string       `json:"base,omitempty"`
	Wire     catalog.Wire `json:"wire"`
	Verdicts []Verdict    `json:"verdicts"`
	First    float64      `json:"first_text_seconds,omitempty"`
	Usage    llm.Usage    `json:"usage"`
	Warnings []string     `json:"warnings,omitempty"`

	driver  llm.Model
	choice  catalog.Choice
	explain func(err error, model string) string
	err     error // why there is no text
}

// New prepares a trial of the model that a choice names. Explain puts an error
// of a model in words.
func New(model string, driver llm.Model, choice catalog.Choice, explain func(err error, model string) string) *Trial {
	t := &Trial{
		Model: model, Provider: choice.Name, Base: choice.Base, Warnings: choice.Warnings,
		driver: driver, choice: choice, explain: explain,
	}
	if choice.Name != "" {
		t.Wire = choice.Wires("")[0]
	}
	return t
}

// Choice returns the model that is tried.
func (t *Trial) Choice() catalog.Choice { return t.choice }

// Err says why the model gave no text; nil if it did.
func (t *Trial) Err() error { return t.err }

// WarnOfWindow warns of a server that forgets the beginning of long prompts.
func (t *Trial) WarnOfWindow(loaded, wanted int) {
	if t.choice.Row.Truncates && loaded > 0 && loaded < wanted {
		t.Warnings = append(t.Warnings, fmt.Sprintf(
			"%s has loaded it with a window of %d tokens and drops the beginning of longer prompts without an error; raise OLLAMA_CONTEXT_LENGTH or num_ctx, or set agents.defaults.contextWindowTokens to %d",
			t.choice.Row.Display, loaded, loaded))
	}
}

// Run makes the calls. A model that gives no text is asked nothing else.
func (t *Trial) Run(ctx context.Context, claim catalog.Offer, report func(Verdict)) {
	record := func(v Verdict) {
		t.Verdicts = append(t.Verdicts, v)
		report(v)
	}
	if t.Text(ctx, record); t.err != nil || ctx.Err() != nil {
		return
	}

	if claim.Tools == catalog.Unsupported {
		record(Verdict{Ability: "tools", Result: "skipped", Note: "it is reported not to support tools"})
	} else {
		record(t.tools(ctx))
	}

	switch claim.Vision {
	case catalog.Supported:
		record(t.vision(ctx))
	case catalog.Unsupported:
		record(Verdict{Ability: "vision", Result: "skipped", Note: "it is reported not to support images; --vision tests it"})
	default:
		record(Verdict{Ability: "vision", Result: "skipped", Note: "it is not known to support images; --vision tests it"})
	}
}

// answerTokens leaves room for models that think before they say a word.
const answerTokens = 1024

// ask makes one call and reports when the first text came and in how many pieces.
func (t *Trial) ask(ctx context.Context, req llm.Request) (resp llm.Response, first time.Duration, pieces int, err error) {
	req.Model = t.choice.WireModel
	req.MaxTokens = answerTokens
	req.Source = "test"
	start := time.Now()
	for ev, err := range t.driver.Stream(ctx, req) {
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

// helloTokens is enough to see that a model answers. Some servers take no less.
const helloTokens = 16

// Hello asks for as little as possible and stops at the first piece of an answer,
// also of thinking. Err says why there was none: ErrSlow means that ctx ended before
// the first piece.
func (t *Trial) Hello(ctx context.Context) { t.err = t.hello(ctx) }

func (t *Trial) hello(ctx context.Context) error {
	req := llm.Request{
		Messages: userSays(llm.Text("Say hello.")),
		Model:    t.choice.WireModel, MaxTokens: helloTokens, Source: "test",
	}
	for ev, err := range t.driver.Stream(ctx, req) {
		switch {
		case err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded):
			return fmt.Errorf("%w: %w", ErrSlow, err)
		case err != nil:
			return err
		case ev.Kind == llm.TextDelta, ev.Kind == llm.ReasoningDelta:
			return nil
		case ev.Kind == llm.Done && ev.Response.Finish != llm.FinishLength && ev.Response.Message.Content.String() == "":
			return &llm.Error{Kind: llm.Empty, Provider: t.Provider, Message: "no text came back"}
		}
	}

	return nil
}

// ErrSlow says that a model did not begin its answer in time.
var ErrSlow = errors.New("the model did not begin its answer in time")

func userSays(content llm.Content) []llm.Message {
	return []llm.Message{{Role: llm.User, Content: content}}
}

// Text asks for a few words and tells about text and streaming.
func (t *Trial) Text(ctx context.Context, record func(Verdict)) {
	start := time.Now()
	resp, first, pieces, err := t.ask(ctx, llm.Request{Messages: userSays(llm.Text("Count from 1 to 9, separated by spaces. Write nothing else."))})
	took := time.Since(start).Seconds()
	words := strings.TrimSpace(resp.Message.Content.String())
	switch {
	case err != nil:
		t.err = err
		record(Verdict{Ability: "text", Result: "failed", Note: t.explain(err, t.Model)})
		return
	case words == "":
		t.err = &llm.Error{Kind: llm.Empty, Provider: t.Provider, Message: "no text came back"}
		note := "no text came back"
		if resp.Finish == llm.FinishLength {
			note = fmt.Sprintf("all of %d tokens went into thinking", answerTokens)
		}
		record(Verdict{Ability: "text", Result: "failed", Note: note, Seconds: took})
		return
	}

	t.First = first.Seconds()
	record(Verdict{Ability: "text", Result: "yes", Note: fmt.Sprintf("%q", text.Label(words, 40)), Seconds: took})
	if pieces > 1 {
		record(Verdict{Ability: "streaming", Result: "yes", Note: fmt.Sprintf("%d pieces, the first after %.1f s", pieces, t.First)})
	} else {
		record(Verdict{Ability: "streaming", Result: "no", Note: "the text came in one piece"})
	}
}

func (t *Trial) tools(ctx context.Context) Verdict {
	v := Verdict{Ability: "tools", Result: "no"}
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
		v.Result, v.Note = "failed", t.explain(err, t.Model)
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
		v.Note = fmt.Sprintf("it called %q, which does not exist", text.Label(call.Name, 40))
	case json.Unmarshal([]byte(call.Arguments), &sum) != nil, sum.A.String() != "17" || sum.B.String() != "25":
		v.Note = "it called the tool with wrong arguments: " + text.Label(call.Arguments, 60)
	default:
		v.Result, v.Note = "yes", "add(17, 25)"
	}

	return v
}

func (t *Trial) vision(ctx context.Context) Verdict {
	v := Verdict{Ability: "vision", Result: "no"}
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
		v.Result, v.Note = "failed", t.explain(err, t.Model)
	case strings.Contains(strings.ToLower(words), "red"):
		v.Result, v.Note = "yes", "it saw the red square"
	default:
		v.Note = fmt.Sprintf("it was shown a red square and said %q", text.Label(words, 40))
	}

	return v
}

// redSquare is a PNG of 64 by 64 red pixels. Smaller ones are refused by some
// vendors.
const redSquare = "iVBORw0KGgoAAAANSUhEUgAAAEAAAABAAQMAAACQp+OdAAAAA1BMVEXcFBQXnfKmAAAAD0lEQVR42mNgGAWjgHwAAAJAAAHgTR1EAAAAAElFTkSuQmCC"

// Suggest names models that may have been meant when there is none of the name.
func (t *Trial) Suggest(offers []catalog.Offer) {
	if near := catalog.NearestModels(t.choice.WireModel, offers, 3); len(near) > 0 {
		t.Warnings = append(t.Warnings, "it offers "+strings.Join(near, ", "))
	}
}
