package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/nanobot-go/nanobot/internal/config"
	"github.com/nanobot-go/nanobot/internal/httpsafe"
	"github.com/nanobot-go/nanobot/internal/llm/speech"
)

// SpeechChoice is what somebody wants instead of the configured service.
type SpeechChoice struct{ Provider, Model, Language string }

// Speech joins the settings of transcription and of its provider.
func Speech(loaded *config.Loaded, c SpeechChoice, getenv func(string) string) (speech.Options, error) {
	cfg := loaded.Config.Transcription
	name := cmp.Or(c.Provider, cfg.Provider, loaded.Config.Channels.TranscriptionProvider)
	block := speechBlock(loaded.Config.Providers, name)
	key := block.APIKey
	if key.IsZero() && len(block.APIKeys) > 0 {
		key = block.APIKeys[0]
	}
	model := c.Model
	if model == "" && c.Provider == "" {
		model = cfg.Model // it belongs to the configured provider
	}
	client, err := httpsafe.Client(httpsafe.Options{Proxy: block.Proxy.Reveal(), Direct: httpsafe.IsLocal(block.APIBase)})
	if err != nil {
		return speech.Options{}, fmt.Errorf("providers.%s: %w", name, err)
	}
	return speech.Options{
		Provider: name, Model: model, Language: cmp.Or(c.Language, cfg.Language, loaded.Config.Channels.TranscriptionLanguage),
		Key: key, Base: block.APIBase, Headers: block.ExtraHeaders, Client: client, Getenv: getenv,
		MaxUpload: int64(cfg.MaxUploadMB) << 20, MaxDuration: time.Duration(cfg.MaxDurationSec) * time.Second,
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

// transcribe turns a voice message into text, "" if that is switched off or
// does not work: the recording itself is still there then.
func (g *Gateway) transcribe(ctx context.Context, path string) string {
	said, _ := g.hear(ctx, path, 0)
	return said
}

// hear is transcribe with a word about why it did not work. A length of 0 is
// not known.
func (g *Gateway) hear(ctx context.Context, path string, length time.Duration) (said, reason string) {
	loaded := g.config()
	if !loaded.Config.Transcription.Enabled {
		return "", "disabled"
	}
	a, err := g.current(ctx)
	if err != nil {
		return "", "failed"
	}
	said, err = a.transcribe(ctx, loaded, lookup(g.o.Env), recording{path, length})
	if err != nil {
		g.log.WarnContext(ctx, "a voice message was not transcribed", "err", err)
		if fault, ok := errors.AsType[*speech.Error](err); ok {
			return "", string(fault.Code)
		}
		return "", "failed"
	}
	return said, ""
}

// recording is a file with somebody's voice. A length of 0 is not known.
type recording struct {
	path   string
	length time.Duration
}

func (a *App) transcribe(ctx context.Context, loaded *config.Loaded, getenv func(string) string, r recording) (string, error) {
	o, err := Speech(loaded, SpeechChoice{}, getenv)
	if err != nil {
		return "", err
	}
	defer o.Client.CloseIdleConnections()
	t, err := speech.New(o)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(r.path)
	if err != nil {
		return "", err
	}
	got, err := CountSpeech(t, o, a.models.ledger, a.models.prices).Transcribe(ctx, speech.Audio{
		Name: filepath.Base(r.path), Size: info.Size(), Duration: r.length,
		Open: func() (io.ReadCloser, error) { return os.Open(r.path) },
	})
	return got.Text, err
}
