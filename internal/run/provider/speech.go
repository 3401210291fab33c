package provider

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/llm/speech"
	"github.com/nanobot-go/nanobot/internal/run/config"
)

// SpeechChoice overrides the configured service.
type SpeechChoice struct{ Provider, Model, Language string }

// Speech combines the settings of transcription and of its provider.
func Speech(loaded *config.Loaded, c SpeechChoice, getenv func(string) string) (speech.Options, error) {
	cfg := loaded.Config.Transcription
	name := cmp.Or(c.Provider, cfg.Provider, loaded.Config.Channels.TranscriptionProvider)
	block := speechBlock(loaded.Config.Providers, name)
	model := c.Model
	if model == "" && c.Provider == "" {
		model = cfg.Model // it belongs to the configured provider
	}

	client, err := httpsafe.Client(httpsafe.Options{Proxy: block.Proxy.Reveal(), Direct: httpsafe.IsLocal(block.APIBase)})
	if err != nil {
		return speech.Options{}, fmt.Errorf("providers.%s: %w", name, err)
	}
	return speech.Options{
		Provider:    name,
		Model:       model,
		Language:    cmp.Or(c.Language, cfg.Language, loaded.Config.Channels.TranscriptionLanguage),
		Key:         FirstKey(block),
		Base:        block.APIBase,
		Headers:     block.ExtraHeaders,
		Client:      client,
		Getenv:      getenv,
		MaxUpload:   int64(cfg.MaxUploadMB) << 20,
		MaxDuration: time.Duration(cfg.MaxDurationSec) * time.Second,
	}, nil
}

// speechBlock finds the settings of a provider under any spelling of its name.
func speechBlock(all map[string]config.Provider, name string) config.Provider {
	canonical, ok := speech.Canonical(name)
	if !ok {
		return config.Provider{}
	}

	for _, n := range slices.Sorted(maps.Keys(all)) {
		if c, ok := speech.Canonical(n); ok && n != "" && c == canonical {
			return all[n]
		}
	}
	return config.Provider{}
}

// Recording is a file with speech. A length of 0 means unknown.
type Recording struct {
	Path   string
	Length time.Duration
}

// Transcribe turns speech into text with the service that a configuration names.
func (m *Models) Transcribe(ctx context.Context, loaded *config.Loaded, getenv func(string) string, r Recording) (string, error) {
	o, err := Speech(loaded, SpeechChoice{}, getenv)
	if err != nil {
		return "", err
	}

	defer o.Client.CloseIdleConnections()
	t, err := speech.New(o)
	if err != nil {
		return "", err
	}

	info, err := os.Stat(r.Path)
	if err != nil {
		return "", err
	}

	got, err := CountSpeech(t, o, m.ledger, m.prices).Transcribe(ctx, speech.Audio{
		Name: filepath.Base(r.Path), Size: info.Size(), Duration: r.Length,
		Open: func() (io.ReadCloser, error) { return os.Open(r.Path) },
	})
	return got.Text, err
}
