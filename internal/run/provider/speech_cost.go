package provider

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"math"
	"path/filepath"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/ledger"
	"github.com/nanobot-go/nanobot/internal/llm/speech"
)

const (
	// speechTokens is how many tokens one second of a recording counts as; prices
	// are per million tokens.
	speechTokens = 32
	// leastSpeech is the shortest recording that services bill.
	leastSpeech = 10 * time.Second
	// speechSource is the source of these calls in the ledger.
	speechSource = "speech"
)

// CountSpeech creates a transcriber that counts recordings by their length and
// applies the spending limits, as for model calls.
func CountSpeech(t speech.Transcriber, o speech.Options, l *ledger.Ledger, prices *ledger.Prices) speech.Transcriber {
	c := &countedSpeech{next: t, provider: o.Provider}
	if name, ok := speech.Canonical(o.Provider); ok {
		c.provider = name
	}

	c.model = cmp.Or(o.Model, speech.UsualModel(o.Provider))
	m := ledger.MeterOptions{Ledger: l, Prices: prices, Provider: c.provider}
	if o.Base != "" && httpsafe.IsLocal(o.Base) {
		m.Billing = ledger.Free
	}

	c.meter = func(call llm.Model) llm.Model { return ledger.Meter(call, m) }
	return c
}

type countedSpeech struct {
	next            speech.Transcriber
	provider, model string
	meter           func(llm.Model) llm.Model
}

// Transcribe implements speech.Transcriber.
func (c *countedSpeech) Transcribe(ctx context.Context, a speech.Audio) (got speech.Text, err error) {
	tokens := int(math.Ceil(speechLength(a).Seconds())) * speechTokens
	call := llm.ModelFunc(func(ctx context.Context, _ llm.Request) iter.Seq2[llm.Event, error] {
		return func(yield func(llm.Event, error) bool) {
			got, err = c.next.Transcribe(ctx, a)
			if fault, ok := errors.AsType[*speech.Error](err); err != nil && (!ok || fault.Code != speech.Empty) { // silence is paid for
				yield(llm.Event{}, err)
				return
			}
			yield(llm.Event{Kind: llm.Done, Response: &llm.Response{
				Message: llm.Message{Role: llm.Assistant}, Finish: llm.FinishStop, Usage: llm.Usage{Prompt: tokens, Estimated: true},
			}}, nil)
		}
	})

	_, merr := llm.Collect(ctx, c.meter(call), llm.Request{Model: c.model, Source: speechSource, Estimate: tokens, MaxTokens: 1})
	if e, ok := errors.AsType[*llm.Error](merr); ok && e.Kind == llm.BudgetExceeded {
		return speech.Text{}, e
	}
	return got, err
}

// speechLength returns the longest duration that a recording of its size can have.
// The duration that the sender claims counts only if it is plausible.
func speechLength(a speech.Audio) time.Duration {
	slow, fast := 1500.0, 48_000.0 // bytes of a second
	switch strings.ToLower(strings.TrimPrefix(filepath.Ext(a.Name), ".")) {
	case "wav", "flac":
		slow, fast = 8000, 200_000
	case "mp3", "mpga", "mpeg", "m4a", "mp4", "aac":
		slow = 3000
	}

	seconds := func(rate float64) time.Duration { return time.Duration(float64(a.Size) / rate * float64(time.Second)) }
	length := a.Duration
	if length <= 0 {
		length = seconds(slow)
	}
	return max(length, seconds(fast), leastSpeech)
}
