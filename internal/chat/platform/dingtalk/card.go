package dingtalk

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

// An AI card is a message that grows. It is delivered empty, filled with the
// whole text again and again, and finished with the last one. DingTalk shows it
// as being written until then, so cards that a process left are finished by the
// next one.

const (
	cardEvery = 1500 * time.Millisecond // between two texts of a card: DingTalk counts calls
	cardEdits = 10                      // texts of all cards in a second; an app has 20 calls
	cardsOff  = 10 * time.Minute        // without cards after a refusal
	cardTries = 3                       // of a text that DingTalk refuses
	leftEvery = time.Minute             // between two tries to finish what another process left
	leftMost  = 200                     // cards that are remembered for that

	cardScopes = "Card.Instance.Write, Card.Streaming.Write"

	// What a card is at.
	flowBegun    = "1"
	flowWriting  = "2"
	flowFinished = "3"
)

// cards are those that this process shows.
type cards struct {
	deps  chat.Deps
	o     *options
	calls *client
	once  *kit.Once     // logs trouble
	more  chan struct{} // holds something when there is more in left

	mu      sync.Mutex
	loaded  bool
	open    map[string]string // card that is being written -> the answer in it
	left    []string          // cards that another process did not finish
	unsure  map[string]string // answer -> card that is perhaps delivered, without a text
	refused map[string]int    // card -> how often its text was refused in a row
	off     time.Time         // no card is tried before
}

func newCards(d chat.Deps, o *options, calls *client) *cards {
	return &cards{
		deps:    d,
		o:       o,
		calls:   calls,
		more:    make(chan struct{}, 1),
		open:    map[string]string{},
		unsure:  map[string]string{},
		refused: map[string]int{},
		once:    kit.NewOnce(d.Log),
	}
}

// cardFacts is the state of the channel.
type cardFacts struct {
	Cards []string `json:"cards"` // that are not finished
}

// load reads which cards another process left. The caller holds the lock.
func (c *cards) load() error {
	if c.loaded {
		return nil
	}
	var f cardFacts
	if err := c.deps.State.Load(&f); err != nil {
		return err
	}
	c.left, c.loaded = f.Cards, true
	return nil
}

// change changes which cards are open, here and on disk.
func (c *cards) change(do func(c *cards)) error {
	c.mu.Lock()
	defer c.mu.Unlock()

	if err := c.load(); err != nil {
		return err
	}

	do(c)
	f := cardFacts{Cards: slices.Clone(c.left)}
	for id := range c.open {
		f.Cards = append(f.Cards, id)
	}

	slices.Sort(f.Cards)
	return c.deps.State.Save(f)
}

// answerOf returns what a card is about.
func answerOf(r bus.Route) string { return r.ChatID + " " + r.MessageID }

// send shows the beginning of an answer in a card. False: it is for a
// message. A card that DingTalk does not take leaves the answer to one message at
// its end, which is what no id means.
func (c *cards) send(ctx context.Context, out bus.Outbound) (id string, ok bool, err error) {
	if c.o.CardTemplateID == "" {
		return "", false, nil
	}

	grows := out.Kind == bus.Delta || out.Kind == bus.Message && out.StreamID != ""
	answer := answerOf(out.Route)
	c.mu.Lock()
	off := c.deps.Now().Before(c.off)
	id = c.unsure[answer]
	c.mu.Unlock()
	again := id != ""
	if off || !grows && !again {
		return "", grows, nil
	}

	if !again {
		id = "nanobot-" + rand.Text()
		if err := c.change(func(c *cards) { c.open[id], c.unsure[answer] = answer, id }); err != nil {
			return "", true, err
		}
	}

	err = c.begin(ctx, id, out, again)
	if grows && err != nil && !chat.IsPermanent(err) {
		return "", true, err // the next try takes this card
	}

	c.mu.Lock()
	delete(c.unsure, answer)
	c.mu.Unlock()
	if err == nil {
		return id, true, nil
	}

	c.deps.Log.DebugContext(ctx, "an answer is not shown in a card", "err", err)
	return "", grows, c.leave(func(card, _ string) bool { return card == id })
}

// begin delivers a card with its first text. Again says that this was tried
// before, and the card is perhaps there.
func (c *cards) begin(ctx context.Context, id string, out bus.Outbound, again bool) error {
	err := c.deliver(ctx, id, out)
	switch e := refusal(err); {
	case err == nil:
	case e == nil, e.limited(), e.Status/100 == 5:
		return c.calls.classify(err)
	case !again:
		c.notTaken(ctx, err)
		return chat.Permanent(err)
	}

	return c.fill(ctx, id, out, out.Kind != bus.Delta)
}

// leave gives cards up: they are finished with what they say.
func (c *cards) leave(which func(card, answer string) bool) error {
	err := c.change(func(c *cards) {
		for card, answer := range c.open {
			if which(card, answer) {
				delete(c.open, card)
				c.left = append(c.left, card)
			}
		}
		c.left = c.left[max(0, len(c.left)-leftMost):]
	})
	select {
	case c.more <- struct{}{}:
	default: // it was told already
	}
	return err
}

// deliver makes a card and shows it in a chat.
func (c *cards) deliver(ctx context.Context, id string, out bus.Outbound) error {
	body := c.newCard(id)
	forward := map[string]bool{"supportForward": true}
	if group, ok := strings.CutPrefix(out.Route.ChatID, groupPrefix); ok {
		model := map[string]any{"robotCode": c.o.ClientID}
		if staff := out.Meta[metaSender]; staff != "" && out.ReplyTo != "" {
			model["atUserIds"] = map[string]string{staff: or(out.Meta[metaName], staff)}
		}
		body["openSpaceId"] = "dtv1.card//IM_GROUP." + group
		body["imGroupOpenSpaceModel"] = forward
		body["imGroupOpenDeliverModel"] = model
	} else {
		body["openSpaceId"], body["imRobotOpenSpaceModel"] = "dtv1.card//IM_ROBOT."+out.Route.ChatID, forward
		body["imRobotOpenDeliverModel"] = map[string]string{"spaceType": "IM_ROBOT", "robotCode": c.o.ClientID}
	}

	var a struct {
		Result struct {
			Deliveries []struct {
				OK    bool   `json:"success"`
				Error string `json:"errorMsg"`
			} `json:"deliverResults"`
		} `json:"result"`
	}

	const path = "/v1.0/card/instances/createAndDeliver"
	if err := c.calls.do(ctx, path, body, &a); err != nil {
		return err
	}

	for _, d := range a.Result.Deliveries {
		if !d.OK {
			return &apiError{Call: path, Status: http.StatusOK, Code: "deliverResults", Message: or(d.Error, "the card was not delivered")}
		}
	}
	return nil
}

// newCard returns a card without a text.
func (c *cards) newCard(id string) map[string]any {
	return map[string]any{
		"cardTemplateId": c.o.CardTemplateID, "outTrackId": id, "userIdType": 1, "callbackType": "STREAM",
		"cardData": map[string]any{"cardParamMap": map[string]string{c.o.CardContentKey: "", "flowStatus": flowBegun}},
	}
}

// fill makes a card say something.
func (c *cards) fill(ctx context.Context, id string, out bus.Outbound, final bool) error {
	c.mu.Lock()
	_, writing := c.open[id]
	c.mu.Unlock()
	words, flow := cardText(out), flowWriting
	if final || !writing {
		flow = flowFinished
	}

	var err error
	if writing {
		err = c.stream(ctx, id, words, final)
	}

	if e := refusal(err); !writing || e != nil && !e.limited() {
		// It is finished already, or may not be streamed: its data can be set all the same.
		if err != nil {
			c.once.Warn(ctx, "streaming", "DingTalk does not stream the text of an AI card; the card is updated as a whole", "err", err)
		}
		err = c.set(ctx, id, map[string]string{c.o.CardContentKey: words, "flowStatus": flow})
	}

	if err != nil {
		return c.unfilled(id, err)
	}

	c.mu.Lock()
	delete(c.refused, id)
	c.mu.Unlock()
	if final && writing {
		return c.change(func(c *cards) { delete(c.open, id) })
	}
	return nil
}

// unfilled is the error of a text that a card did not take. One that DingTalk
// refuses again and again is for a message.
func (c *cards) unfilled(id string, err error) error {
	e := refusal(err)
	if e == nil || e.limited() {
		return c.calls.classify(err)
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refused[id]++; c.refused[id] >= cardTries || e.Status/100 == 4 {
		delete(c.refused, id)
		return chat.Permanent(err)
	}
	return err
}

// stream writes the whole text of a card, as if it were typed.
func (c *cards) stream(ctx context.Context, id, words string, final bool) error {
	return c.calls.put(ctx, "/v1.0/card/streaming", map[string]any{
		"outTrackId": id, "guid": rand.Text(), "key": c.o.CardContentKey, "content": words, "isFull": true, "isFinalize": final, "isError": false,
	})
}

// set changes variables of a card.
func (c *cards) set(ctx context.Context, id string, values map[string]string) error {
	return c.calls.put(ctx, "/v1.0/card/instances", map[string]any{
		"outTrackId": id, "cardData": map[string]any{"cardParamMap": values}, "cardUpdateOptions": map[string]bool{"updateCardDataByKey": true},
	})
}

// cardText returns a text for a card, which is always Markdown.
func cardText(out bus.Outbound) string {
	plain, words := render(out)
	if plain {
		return escape(words)
	}
	return words
}

// notTaken notes that DingTalk does not take a card. What is wrong with the
// template or the permissions is so for all.
func (c *cards) notTaken(ctx context.Context, err error) {
	e := refusal(err)
	what := "DingTalk did not take an AI card; the answer is sent as a message"
	switch {
	case strings.HasPrefix(e.Code, "Forbidden.AccessDenied"):
		what = "AI cards need the permissions " + e.scopes(cardScopes) + ": apply for them under Permissions of the app on https://open-dev.dingtalk.com and publish a version; until then answers are sent as messages"
	case strings.Contains(strings.ToLower(e.Code), "template"):
		what = fmt.Sprintf("DingTalk does not take the card template channels.%s.cardTemplateId: publish it on https://open-dev.dingtalk.com/fe/card, and give this app the right to use it; until then answers are sent as messages", c.deps.Name)
	default:
		c.once.Warn(ctx, e.Code, "AI cards are not used", "what", what, "err", err)
		return
	}

	c.mu.Lock()
	c.off = c.deps.Now().Add(cardsOff)
	c.mu.Unlock()
	c.once.Warn(ctx, e.Code, "AI cards are not used", "what", what, "err", err)
}

// Edit implements chat.Streamer.
func (b *bot) Edit(ctx context.Context, out bus.Outbound, id string, final bool) error {
	return b.cards.fill(ctx, id, out, final)
}

// Erase implements chat.Streamer. A card cannot be removed: all that are left
// of an answer are finished with what they say.
func (b *bot) Erase(_ context.Context, route bus.Route, id string) error {
	of := answerOf(route)
	return errors.Join(errors.ErrUnsupported, b.cards.leave(func(card, answer string) bool { return card == id || answer == of }))
}

// closeAbandoned closes cards that nothing more is written into, until ctx ends.
func (c *cards) closeAbandoned(ctx context.Context) {
	for {
		c.mu.Lock()
		err := c.load()
		left := slices.Clone(c.left)
		c.mu.Unlock()
		for _, id := range left {
			err = errors.Join(err, c.closeCard(ctx, id))
		}

		var again <-chan time.Time
		if err != nil {
			c.deps.Log.DebugContext(ctx, "a card is not finished yet", "err", err)
			again = time.After(leftEvery)
		}

		select {
		case <-ctx.Done():
			return
		case <-c.more:
		case <-again:
		}
	}
}

// closeCard ends the updates of a card that was left. One that DingTalk refuses is forgotten.
func (c *cards) closeCard(ctx context.Context, id string) error {
	err := c.set(ctx, id, map[string]string{"flowStatus": flowFinished})
	if e := refusal(err); err != nil && (e == nil || e.limited() || e.Status/100 == 5) {
		return err
	}
	return c.change(func(c *cards) { c.left = slices.DeleteFunc(c.left, func(s string) bool { return s == id }) })
}

// try makes a card that is not delivered, and finishes it.
func (c *cards) try(ctx context.Context) chat.Check {
	id := "nanobot-" + rand.Text()
	err := c.calls.do(ctx, "/v1.0/card/instances", c.newCard(id), nil)
	if err == nil {
		err = c.stream(ctx, id, "-", true)
	}
	if err == nil {
		return chat.Check{Name: "card", OK: true}
	}
	return chat.Check{Name: "card", Detail: fmt.Sprintf("%v: check cardTemplateId, cardContentKey and the permissions %s; without a card answers are sent as messages", err, cardScopes)}
}
