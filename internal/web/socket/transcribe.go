package socket

import (
	"context"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/bus"
)

const (
	maxAudioBytes = 25 << 20
	maxAudioMS    = 600_000 // the settings may allow less, never more
	maxRequestID  = 80
)

// transcribe turns speech into text, beside the other frames, one at a time.
func (r *receiver) transcribe(ctx context.Context, e *envelope) {
	id := e.RequestID
	fail := func(detail string) {
		r.reply(newFrame(evNoTranscript, "", 128).text("request_id", text.CutBytes(id, maxRequestID)).text("detail", detail))
	}
	switch {
	case id == "" || len(id) > maxRequestID:
		fail("invalid_request")
		return
	case e.DataURL == "":
		fail("missing_audio")
		return
	case r.c.d.Transcribe == nil && r.c.o.Transcribe == nil || r.c.d.Media == nil:
		fail("not_configured")
		return
	case e.DurationMS < 0 || e.DurationMS > maxAudioMS:
		fail("duration")
		return
	}

	f, reason := parseDataURL(e.DataURL)
	switch {
	case reason != "":
		fail("decode")
		return
	case !strings.HasPrefix(f.mime, "audio/") && f.mime != "video/webm" && f.mime != "video/mp4":
		fail("mime")
		return
	case f.size > maxAudioBytes:
		fail("size")
		return
	case !r.begin():
		fail("invalid_request")
		return
	}

	r.wg.Go(func() {
		text, reason := r.textOf(ctx, f, time.Duration(e.DurationMS*float64(time.Millisecond)))
		r.done() // before the answer: the next request may follow it
		if reason != "" {
			fail(reason)
			return
		}
		r.reply(newFrame(evTranscript, "", len(text)).text("request_id", id).text("text", text))
	})
}

// textOf keeps the recording only as long as it is needed.
func (r *receiver) textOf(ctx context.Context, f attachment, length time.Duration) (text, reason string) {
	f.name = "voice" + extension(f.mime)
	m, reason := r.c.storeOne(ctx, f)
	if reason != "" {
		return "", reason
	}

	defer discard([]bus.Media{m})
	if r.c.o.Transcribe != nil {
		text, reason = r.c.o.Transcribe(ctx, m.Path, length)
	} else {
		text = r.c.d.Transcribe(ctx, m.Path)
	}

	if text == "" && reason == "" {
		reason = "empty"
	}
	return text, reason
}

func (r *receiver) begin() bool {
	r.c.hub.mu.Lock()
	defer r.c.hub.mu.Unlock()
	if r.busy {
		return false
	}
	r.busy = true
	return true
}

func (r *receiver) done() {
	r.c.hub.mu.Lock()
	defer r.c.hub.mu.Unlock()
	r.busy = false
}
