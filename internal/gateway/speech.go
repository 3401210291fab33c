package gateway

import (
	"context"
	"errors"
	"time"

	"github.com/nanobot-go/nanobot/internal/app"
	"github.com/nanobot-go/nanobot/internal/llm/speech"
	"github.com/nanobot-go/nanobot/internal/provider"
)

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
	said, err = a.Models().Transcribe(ctx, loaded, app.Getenv(g.o.Env), provider.Recording{Path: path, Length: length})
	if err != nil {
		g.log.WarnContext(ctx, "a voice message was not transcribed", "err", err)
		if fault, ok := errors.AsType[*speech.Error](err); ok {
			return "", string(fault.Code)
		}
		return "", "failed"
	}
	return said, ""
}
