package feishu

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
)

// cards change card entities, which can grow while they are shown.
type cards struct {
	calls *client
	now   func() time.Time
	log   *slog.Logger
}

// of asks which card entity a message shows, "" if it shows none.
func (c *cards) of(ctx context.Context, id string) (string, error) {
	var got struct {
		Card string `json:"card_id"`
	}
	err := c.calls.call(ctx, http.MethodPost, "/open-apis/cardkit/v1/cards/id_convert", map[string]string{"message_id": id}, &got)
	if refused(err) {
		return "", nil
	}
	return got.Card, err
}

// grow makes a card say what out says, and ends its streaming mode if that is
// final.
func (c *cards) grow(ctx context.Context, r *record, out bus.Outbound, final bool) error {
	if said := cardMarkdown(out, maxTables); said != r.text {
		if err := c.rewrite(ctx, r, said, out); err != nil {
			return err
		}
	}

	if !final {
		return nil
	}

	r.live = time.Time{}
	err := c.setStreaming(ctx, r, false)
	if refused(err) {
		c.log.InfoContext(ctx, "the streaming mode of a card cannot be ended", "err", err)
		return nil // it says all
	}
	return err
}

// rewrite makes a card say a text, or the same without tables if Feishu does not
// take those. The streaming mode is begun again before Feishu ends it: what is
// written after that is refused, or dropped without a word.
func (c *cards) rewrite(ctx context.Context, r *record, said string, out bus.Outbound) error {
	r.text = ""
	if c.now().Sub(r.live) > streamingFor {
		if err := c.beginStreaming(ctx, r); err != nil {
			return err
		}
	}

	err := c.write(ctx, r, said)
	if refused(err) {
		shown := said
		switch refusal(err) {
		case codeCardClosed, codeCardTimeout:
		case codeCardOrder:
			r.seq += seqJump
		default:
			shown = cardMarkdown(out, 0)
		}

		if err = c.beginStreaming(ctx, r); err == nil {
			err = c.write(ctx, r, shown)
		}
	}

	if err == nil {
		r.text = said
	}
	return err
}

// beginStreaming begins the streaming mode of a card, or begins it again.
func (c *cards) beginStreaming(ctx context.Context, r *record) error {
	now := c.now()
	err := c.setStreaming(ctx, r, true)
	if refusal(err) == codeCardOrder {
		r.seq += seqJump
		err = c.setStreaming(ctx, r, true)
	}
	if err == nil {
		r.live = now
	}
	return err
}

// next returns the number of the next change of a card. It grows with the time, so
// that another process goes on above those of this one.
func (c *cards) next(r *record) int64 {
	const began = 1767225600 // 2026, for numbers below 2^31
	r.seq = max(r.seq+1, 2*(c.now().Unix()-began))
	return r.seq
}

func (c *cards) write(ctx context.Context, r *record, said string) error {
	body := map[string]any{"content": said, "sequence": c.next(r)}
	return c.calls.call(ctx, http.MethodPut, "/open-apis/cardkit/v1/cards/"+url.PathEscape(r.card)+"/elements/"+elementID+"/content", body, nil)
}

func (c *cards) setStreaming(ctx context.Context, r *record, on bool) error {
	body := map[string]any{"settings": fmt.Sprintf(`{"config":{"streaming_mode":%t}}`, on), "sequence": c.next(r)}
	return c.calls.call(ctx, http.MethodPatch, "/open-apis/cardkit/v1/cards/"+url.PathEscape(r.card)+"/settings", body, nil)
}
