package provider_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/ledger"
	"github.com/nanobot-go/nanobot/internal/llm/speech"
	"github.com/nanobot-go/nanobot/internal/run/provider"
)

type saying struct {
	calls int
	err   error
}

func (s *saying) Transcribe(context.Context, speech.Audio) (speech.Text, error) {
	s.calls++
	return speech.Text{Text: "hello"}, s.err
}

// Speech to text is counted by its length, whatever the sender says about that,
// and stops at the limits.
func TestSpeechIsCounted(t *testing.T) {
	t.Parallel()
	prices := filepath.Join(t.TempDir(), "prices.json")
	if err := os.WriteFile(prices, []byte(`[{"model":"whisper-1","in":3.125,"out":0}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	open := func(lim ledger.Limits) (*ledger.Ledger, *saying, speech.Transcriber) {
		l := ledger.New(ledger.Options{Store: disk.Open(t.TempDir(), nil), Limits: lim})
		s := &saying{}
		return l, s, provider.CountSpeech(s, speech.Options{Provider: "openai"}, l, ledger.NewPrices(prices, nil))
	}
	l, s, counted := open(ledger.Limits{})
	for _, tt := range []struct {
		name  string
		audio speech.Audio
		err   error
		usd   float64 // of this recording
	}{
		{"a minute", speech.Audio{Name: "a.ogg", Size: 240_000, Duration: time.Minute}, nil, 0.006},
		{"short ones are billed as ten seconds", speech.Audio{Name: "a.ogg", Size: 4000, Duration: time.Second}, nil, 0.001},
		{"a length that cannot be", speech.Audio{Name: "a.ogg", Size: 48_000 * 120, Duration: time.Second}, nil, 0.012},
		{"no length", speech.Audio{Name: "a.oga", Size: 1500 * 60}, nil, 0.006},
		{"silence is paid for", speech.Audio{Name: "a.ogg", Duration: time.Minute}, &speech.Error{Code: speech.Empty}, 0.006},
		{"what was refused is not", speech.Audio{Name: "a.ogg", Duration: time.Minute}, &llm.Error{Kind: llm.Auth}, 0},
	} {
		before, _ := l.Spent()
		s.err = tt.err
		_, err := counted.Transcribe(t.Context(), tt.audio)
		after, _ := l.Spent()
		if got := after.USD - before.USD; !errors.Is(err, tt.err) && tt.err != nil || got < tt.usd-1e-6 || got > tt.usd+1e-6 {
			t.Errorf("%s: cost %.6f, want %.6f, error %v", tt.name, got, tt.usd, err)
		}
	}

	l, s, counted = open(ledger.Limits{DailyUSD: 0.02})
	var last error
	for range 10 {
		_, last = counted.Transcribe(t.Context(), speech.Audio{Name: "a.ogg", Duration: time.Minute, Size: 1})
	}
	if spent, _ := l.Spent(); spent.USD > 0.02 || s.calls != 3 || last == nil || !strings.Contains(last.Error(), "dailyUsd") {
		t.Errorf("spent %v in %d calls: %v", spent.USD, s.calls, last)
	}
}
