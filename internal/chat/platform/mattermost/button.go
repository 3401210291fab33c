package mattermost

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

// offer is what a button means. Mattermost keeps it from people and sends it back
// when the button is pressed; the proof shows that it is ours.
type offer struct {
	Question string `json:"question,omitempty"` // of a question that a turn waits on
	Label    string `json:"label"`
	Clean    bool   `json:"clean,omitempty"` // the label is as good as the person's own words
	Chat     string `json:"chat"`
	Thread   string `json:"thread,omitempty"`
	Proof    string `json:"proof"`
}

// prove makes the proof of an offer with a key that only this bot has.
func (b *bot) prove(o offer) string {
	o.Proof = ""
	data, _ := json.Marshal(o) // words only
	key := sha256.Sum256([]byte("nanobot buttons of Mattermost\n" + b.o.Token.Reveal()))
	mac := hmac.New(sha256.New, key[:])
	mac.Write(data)
	return hex.EncodeToString(mac.Sum(nil))
}

// buttons returns the answers to a question.
func (b *bot) buttons(out bus.Outbound) []any {
	q := out.Question
	if q == nil || len(q.Options) == 0 || b.o.WebhookURL == "" {
		return nil
	}

	var actions []any
	for i, label := range q.Options {
		o := offer{Label: label, Clean: q.Clean, Chat: out.Route.ChatID, Thread: out.Route.ThreadID}
		if out.Kind == bus.Ask {
			o.Question = q.ID
		}

		o.Proof = b.prove(o)
		actions = append(actions, map[string]any{
			"id": fmt.Sprintf("o%d", i), "name": label, "type": "button",
			"integration": map[string]any{"url": b.o.WebhookURL, "context": o},
		})
	}

	return []any{map[string]any{"actions": actions}}
}

// press is what Mattermost says of a button that a person pressed.
type press struct {
	UserID    string `json:"user_id"`
	UserName  string `json:"user_name"`
	ChannelID string `json:"channel_id"`
	PostID    string `json:"post_id"`
	TriggerID string `json:"trigger_id"`
	Context   offer  `json:"context"`
}

// pressed receives a press. Mattermost does not sign it: the proof in it does.
func (b *bot) pressed(w http.ResponseWriter, r *http.Request, body []byte) {
	var p press
	err := json.Unmarshal(body, &p)
	switch submit := b.submit.Load(); {
	case err != nil:
		kit.Reply(w, http.StatusBadRequest)
	case !kit.SameSecret(p.Context.Proof, b.prove(p.Context)) || p.ChannelID != p.Context.Chat || p.UserID == "" || p.PostID == "":
		kit.Reply(w, http.StatusUnauthorized)
	case submit == nil:
		kit.Reply(w, http.StatusServiceUnavailable)
	default:
		b.answer(w, r, p, *submit)
	}
}

// answer makes of a press a message with the label as its text.
func (b *bot) answer(w http.ResponseWriter, r *http.Request, p press, submit chat.Submit) {
	ctx := r.Context()
	e := event{Post: post{ID: p.PostID, ChannelID: p.ChannelID, UserID: p.UserID}, Sender: p.UserName}
	where, err := b.known.where(ctx, &e, false)
	if err != nil {
		kit.Reply(w, http.StatusServiceUnavailable)
		return
	}

	v, err := (&receiver{bot: b}).visitor(ctx, &e, where)
	if err != nil {
		kit.Reply(w, http.StatusServiceUnavailable)
		return
	}

	v.Mentioned = true
	v.Route.ThreadID = p.Context.Thread
	v.Text = ""
	pass, ok := b.deps.Gate.Admit(ctx, v)
	if !ok {
		reply(w, map[string]any{"ephemeral_text": phrase.In(string(b.o.Language), "Only people whom the owner of this bot has admitted can answer.")})
		return
	}

	in := pass.Inbound("press."+p.PostID+"."+p.TriggerID, p.Context.Label)
	in.Untrusted = !p.Context.Clean // the model wrote the label, perhaps after it had read a stranger's words
	if p.Context.Question != "" {
		in.Answer = &bus.Answer{QuestionID: p.Context.Question, Option: p.Context.Label}
		in.Untrusted = false // the program wrote it
	}
	if in.Route.ThreadID != "" {
		in.SessionKey = in.Route.SessionKey() + ":" + in.Route.ThreadID
	}

	in.Meta = map[string]string{"post_id": p.PostID, "user_id": p.UserID, "username": p.UserName, "button_label": p.Context.Label, "is_callback": "true"}
	if err := submit(ctx, in); err != nil {
		kit.Reply(w, http.StatusServiceUnavailable)
		return
	}
	if in.Answer != nil && !v.Direct { // whether the right person pressed, only the agent knows
		reply(w, map[string]any{})
		return
	}
	reply(w, b.calls.withoutButtons(r, p))
}

// withoutButtons changes the post of a button that was pressed: it says what was
// chosen.
func (c *client) withoutButtons(r *http.Request, p press) map[string]any {
	var old post
	if err := c.call(r.Context(), http.MethodGet, "/posts/"+p.PostID, nil, &old); err != nil {
		return map[string]any{}
	}
	props := old.Props
	delete(props, "attachments")
	return map[string]any{"update": map[string]any{"message": old.Message + "\n\n> " + p.Context.Label, "props": props}}
}

func reply(w http.ResponseWriter, v map[string]any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}
