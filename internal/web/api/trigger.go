package api

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"
)

// maxTriggerBody bounds a request that sets off a trigger: its message, and
// what JSON makes of it.
const maxTriggerBody = 2 << 20

// trigger takes a message for the chat of a trigger. It is on disk when the
// client hears that it was taken; the answer goes to the chat.
func (a *API) trigger(w http.ResponseWriter, r *http.Request) error {
	var in struct {
		Message   string `json:"message"`
		Untrusted *bool  `json:"untrusted"`
	}
	r.Body = http.MaxBytesReader(w, r.Body, min(maxTriggerBody, a.o.MaxBody))
	if err := decode(w, r, &in); err != nil {
		return err
	}
	if strings.TrimSpace(in.Message) == "" {
		return badRequest("message", "message must be a text that says what happened.")
	}
	// What programs pass on is seldom their own words.
	return a.fire(w, r, in.Message, in.Untrusted == nil || *in.Untrusted)
}

// fire hands a message to the trigger that the path names.
func (a *API) fire(w http.ResponseWriter, r *http.Request, message string, untrusted bool) error {
	id := r.PathValue("id")
	delivery, err := a.o.Trigger(r.Context(), id, message, untrusted)
	if err != nil {
		f := a.explain(err)
		switch f.status {
		case http.StatusNotFound:
			f.code = cmp.Or(f.code, "trigger_not_found")
		case http.StatusConflict:
			f.code = cmp.Or(f.code, "trigger_disabled")
		case http.StatusRequestEntityTooLarge:
			f.code, f.param = cmp.Or(f.code, "request_too_large"), "message"
		case http.StatusInternalServerError:
			f.message, f.final = "The message could not be kept; the log of nanobot has the reason under this request id.", false
		}

		f.message = fmt.Sprintf("%s (trigger %.40q)", strings.TrimSuffix(f.message, "."), id)
		return f
	}

	return sendJSON(w, http.StatusAccepted, struct {
		ID      string `json:"id"`
		Object  string `json:"object"`
		Trigger string `json:"trigger"`
	}{delivery, "trigger.delivery", id})
}
