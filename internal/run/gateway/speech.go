package gateway

import (
	"context"
	"errors"
	"time"

	"github.com/nanobot-go/nanobot/internal/llm/speech"
	"github.com/nanobot-go/nanobot/internal/run/app"
	"github.com/nanobot-go/nanobot/internal/run/provider"
)

// transcript turns a voice message into text, "" if that is switched off or
// does not work: the recording itself is still there then.
func (w *webClients) transcript(ctx context.Context, path string) string {
	said, _ := w.transcribe(ctx, path, 0)
	return said
}

// transcribe is transcript with a word about why it did not work. A length of 0 is
// not known.
func (w *webClients) transcribe(ctx context.Context, path string, length time.Duration) (said, reason string) {
	loaded := w.state.config()
	if !loaded.Config.Transcription.Enabled {
		return "", "disabled"
	}

	a, err := w.state.current(ctx)
	if err != nil {
		return "", "failed"
	}

	said, err = a.Models().Transcribe(ctx, loaded, app.Getenv(w.app.Env), provider.Recording{Path: path, Length: length})
	if err != nil {
		w.log.WarnContext(ctx, "a voice message was not transcribed", "err", err)
		if fault, ok := errors.AsType[*speech.Error](err); ok {
			return "", string(fault.Code)
		}
		return "", "failed"
	}

	return said, ""
}
