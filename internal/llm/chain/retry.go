package chain

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/llm"
)

const (
	// standardAttempts is the number of calls in standard mode: one, and one
	// after each of the delays of 1, 2 and 4 s.
	standardAttempts = 4
	// sameErrors ends persistent mode: the tenth identical error in a row is final.
	sameErrors = 10
	// heartbeat is how often a waiting user hears that we are still waiting.
	heartbeat = 30 * time.Second
	// longestWait is the longest delay a server may ask for in standard mode;
	// beyond it the error is reported with the time instead.
	longestWait = 120 * time.Second
	// longestPersistentWait caps the delay in persistent mode.
	longestPersistentWait = 60 * time.Second
	// waitBuffer is added to a delay the server asked for, because clocks and
	// rate windows are not exact.
	waitBuffer = time.Second
)

// RetryOptions tune Retry. The zero value is standard mode.
type RetryOptions struct {
	// Persistent keeps trying until the same error came ten times in a row.
	Persistent bool
	// Rand gives the jitter, in [0,1); nil means math/rand.
	Rand func() float64
	Log  *slog.Logger // nil: no log
}

// Retry makes a model that tries again after failures that may pass. It sends
// Waiting events while it waits. Once text was shown, only a timeout or a cut
// stream is tried again, after a Restarted event; other errors are returned.
// A request whose images the model refuses is sent once more without them;
// models that turn out to take no images are remembered. It never retries a
// cancelled request.
func Retry(m llm.Model, o RetryOptions) llm.Model {
	if o.Rand == nil {
		o.Rand = rand.Float64
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &retrier{model: m, o: o}
}

type retrier struct {
	model llm.Model
	o     RetryOptions

	mu    sync.Mutex
	blind map[string]bool // models that take no images
}

// Stream implements Model.
func (r *retrier) Stream(ctx context.Context, req llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		run := retryRun{r: r, req: req, yield: yield}
		if r.isBlind(req.Model) {
			run.req, _ = withoutImages(req)
		}
		if err := run.loop(ctx); err != nil {
			yield(llm.Event{}, err)
		}
	}
}

// retryRun is one request with all its attempts.
type retryRun struct {
	r        *retrier
	req      llm.Request
	yield    func(llm.Event, error) bool
	attempt  int        // calls made so far, stripped ones not counted
	stripped *llm.Error // why images were taken out
	last     string
	same     int // how often last came in a row
}

// loop returns the final error, or nil when the stream is finished or the
// caller stopped reading.
func (run *retryRun) loop(ctx context.Context) error {
	for {
		run.attempt++
		shown, done, err := run.try(ctx)
		if done {
			return nil
		}

		e, err := failure(ctx, err)
		if err != nil {
			return err
		}

		if req, ok := run.strip(e, shown); ok {
			run.req, run.stripped = req, e
			run.attempt--
			continue
		}

		if !run.again(e, shown) {
			return run.final(e)
		}
		if !run.wait(ctx, e) {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if shown != 0 && !run.yield(llm.Event{Kind: llm.Restarted}, nil) {
			return nil
		}
	}
}

// try makes one call; see relay.
func (run *retryRun) try(ctx context.Context) (shown llm.EventKind, done bool, err error) {
	return relay(run.r.model.Stream(ctx, run.req), "", run.yield, func() {
		if run.stripped != nil {
			run.r.remember(run.req.Model, run.stripped)
		}
	})
}

// again decides whether an error is worth another attempt.
func (run *retryRun) again(e *llm.Error, shown llm.EventKind) bool {
	if text := e.Error(); text == run.last {
		run.same++
	} else {
		run.last, run.same = text, 1
	}

	switch {
	case !e.Retryable():
		return false
	case shown == llm.TextDelta && e.Kind != llm.Timeout && e.Kind != llm.StreamTruncated:
		return false
	case run.r.o.Persistent:
		return run.same < sameErrors
	}

	return run.attempt < standardAttempts && e.RetryAfter <= longestWait
}

// final returns the error that the caller gets; a long delay the server asked for
// becomes part of the text, because we do not wait that long.
func (run *retryRun) final(e *llm.Error) *llm.Error {
	if run.r.o.Persistent || !e.Retryable() || e.RetryAfter <= longestWait {
		return e
	}
	cp := *e
	cp.Message += fmt.Sprintf(" (the server asks to wait %s)", e.RetryAfter.Round(time.Second))
	return &cp
}

func (run *retryRun) delay(e *llm.Error) time.Duration {
	if e.RetryAfter > 0 {
		d := e.RetryAfter + waitBuffer
		if run.r.o.Persistent {
			d = min(d, longestPersistentWait)
		}
		return d
	}
	d := time.Second << min(run.attempt-1, 2)
	return time.Duration(float64(d) * (0.8 + 0.4*run.r.o.Rand()))
}

// wait sleeps before the next attempt; false means that the caller stopped
// reading.
func (run *retryRun) wait(ctx context.Context, e *llm.Error) bool {
	left := run.delay(e)
	run.r.o.Log.InfoContext(ctx, "model call failed, trying again", "model", run.req.Model, "attempt", run.attempt, "wait_ms", left.Milliseconds(), "err", e)
	end := time.Now().Add(left)
	for left > 0 {
		if !run.yield(llm.Event{Kind: llm.Waiting, Text: run.notice(e, left), Brief: true}, nil) {
			return false
		}

		t := time.NewTimer(min(left, heartbeat))
		select {
		case <-ctx.Done():
			t.Stop()
			return true
		case <-t.C:
		}

		left = time.Until(end)
	}

	return true
}

func (run *retryRun) notice(e *llm.Error, left time.Duration) string {
	cause := "The model server has a problem"
	switch e.Kind {
	case llm.RateLimited:
		cause = "The model server limits the rate"
	case llm.Overloaded:
		cause = "The model server is overloaded"
	case llm.Timeout:
		cause = "The model server did not answer in time"
	case llm.Connection, llm.StreamTruncated:
		cause = "The connection to the model server broke"
	}

	secs := max(1, int(left.Round(time.Second)/time.Second))
	if run.r.o.Persistent {
		return fmt.Sprintf("%s; trying again in %d s (attempt %d).", cause, secs, run.attempt+1)
	}
	return fmt.Sprintf("%s; trying again in %d s (attempt %d of %d).", cause, secs, run.attempt+1, standardAttempts)
}

// strip gives the request without images if they may be what the error is about.
func (run *retryRun) strip(e *llm.Error, shown llm.EventKind) (llm.Request, bool) {
	if run.stripped != nil || shown != 0 || e.Retryable() || !aboutImages(e) {
		return llm.Request{}, false
	}
	return withoutImages(run.req)
}

func aboutImages(e *llm.Error) bool {
	switch e.Kind {
	case llm.UnsupportedImage:
		return true
	case llm.Auth, llm.Permission, llm.Billing, llm.RateLimited, llm.UnsupportedParam, llm.ContentFilter, llm.Configuration:
		return false
	case llm.ContextLength:
		return e.Status == 413
	}

	switch e.Status {
	case 400, 404, 413, 415, 422:
		return true
	}

	text := strings.ToLower(e.Message)
	return strings.Contains(text, "image") || strings.Contains(text, "vision") || strings.Contains(text, "multimodal")
}

// withoutImages copies a request with every image replaced by ImageNote; ok is
// false if there was none.
func withoutImages(req llm.Request) (out llm.Request, ok bool) {
	msgs := make([]llm.Message, len(req.Messages))
	for i, m := range req.Messages {
		msgs[i] = m
		var blocks []llm.Block
		for j, b := range m.Content.Blocks {
			if b.Type != "image_url" {
				continue
			}
			if blocks == nil {
				blocks = append(blocks, m.Content.Blocks...)
			}
			blocks[j] = llm.Block{Type: "text", Text: llm.ImageNote}
		}

		if blocks != nil {
			msgs[i].Content.Blocks = blocks
			ok = true
		}
	}

	req.Messages = msgs
	return req, ok
}

func (r *retrier) isBlind(model string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.blind[model]
}

// remember notes that a model takes no images; an error about one particular
// image says nothing about the next.
func (r *retrier) remember(model string, e *llm.Error) {
	if e.Kind != llm.UnsupportedImage || strings.HasPrefix(e.Code, "invalid_image") || strings.HasPrefix(e.Code, "image_") ||
		!strings.Contains(strings.ToLower(e.Message), "support") {
		return
	}

	r.mu.Lock()
	defer r.mu.Unlock()
	if r.blind == nil {
		r.blind = map[string]bool{}
	}
	r.blind[model] = true
}
