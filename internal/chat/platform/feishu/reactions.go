package feishu

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	"github.com/nanobot-go/nanobot/internal/base/recent"
	"github.com/nanobot-go/nanobot/internal/chat"
)

// reactions show how far a message is.
type reactions struct {
	calls *client
	o     account
	set   *recent.Map[string, string] // ids of ours, by message
	once  func(ctx context.Context, what string, args ...any)
}

func newReactions(b *bot) *reactions {
	return &reactions{calls: b.calls, o: b.o, set: recent.New[string, string](memory), once: b.once}
}

// show replaces the reaction to a message by that of a phase.
func (r *reactions) show(ctx context.Context, message string, phase chat.Phase) error {
	if phase == chat.Seen {
		mark, err := r.add(ctx, message, r.o.ReactEmoji)
		if mark != "" {
			r.set.Put(message, mark)
		}
		return err
	}

	err := r.remove(ctx, message)
	emoji := map[chat.Phase]string{chat.Answered: r.o.DoneEmoji, chat.TurnFailed: r.o.FailEmoji}[phase]
	_, marked := r.add(ctx, message, emoji)
	return errors.Join(err, marked)
}

// add sets a reaction and returns its id.
func (r *reactions) add(ctx context.Context, message, emoji string) (string, error) {
	if emoji == "" {
		return "", nil
	}

	var got struct {
		ID string `json:"reaction_id"`
	}
	body := map[string]any{"reaction_type": map[string]string{"emoji_type": emoji}}
	err := r.calls.call(ctx, http.MethodPost, messagePath(message)+"/reactions", body, &got)
	if refusal(err) == codeBadEmoji {
		r.once(ctx, "Feishu does not know a reaction of the settings; its names are in the docs of Feishu, such as THUMBSUP, OnIt and DONE", "emoji", emoji)
		return "", nil
	}
	return got.ID, classify(err)
}

// remove takes our reaction away. An earlier process may have set it.
func (r *reactions) remove(ctx context.Context, message string) error {
	if r.o.ReactEmoji == "" {
		return nil
	}

	mark, ok := r.set.Get(message)
	if !ok {
		var got struct {
			Items []struct {
				ID       string `json:"reaction_id"`
				Operator struct {
					ID   string `json:"operator_id"`
					Type string `json:"operator_type"`
				} `json:"operator"`
			} `json:"items"`
		}
		if err := r.calls.call(ctx, http.MethodGet, messagePath(message)+"/reactions?reaction_type="+url.QueryEscape(r.o.ReactEmoji), nil, &got); err != nil {
			return classify(err)
		}

		for _, it := range got.Items {
			if it.Operator.Type == "app" && it.Operator.ID == r.o.AppID {
				mark = it.ID
			}
		}
	}

	if mark == "" {
		return nil
	}

	r.set.Delete(message)
	err := r.calls.call(ctx, http.MethodDelete, messagePath(message)+"/reactions/"+url.PathEscape(mark), nil, nil)
	if refused(err) {
		return nil // it is gone
	}
	return classify(err)
}
