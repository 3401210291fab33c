// Package web is the registry of what web clients read and change besides talking to
// the agent. A read is an HTTP GET below /api/. An action is a change with a name, which
// comes over the socket of a client that is signed in. The package knows how both are
// asked for, answered and refused, in codes that clients can word themselves; what is
// read and changed is in subjects.
//
// Who may ask is decided before: everything here belongs to the owner.
package web

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/nanobot-go/nanobot/internal/core/schedule"
	"github.com/nanobot-go/nanobot/internal/core/session"
)

// Error is a refusal in the terms of HTTP. Message is for the person.
type Error struct {
	Status  int            `json:"status"`
	Code    string         `json:"code"`             // see codes.go
	Params  map[string]any `json:"params,omitempty"` // the values in the message
	Message string         `json:"message"`
}

// Error implements error.
func (e *Error) Error() string { return e.Message }

// HTTPStatus returns the code of the refusal.
func (e *Error) HTTPStatus() int { return e.Status }

// Detail returns the name of the refusal and its values, for clients that word it
// themselves.
func (e *Error) Detail() (code string, params map[string]any) { return e.Code, e.Params }

// Refuse makes an Error. The format is in codes.
func Refuse(status int, format string, args ...any) error { return refused(status, format, args...) }

func refused(status int, format string, args ...any) *Error {
	code, params := named(format, args)
	return &Error{Status: status, Code: code, Params: params, Message: fmt.Sprintf(format, args...)}
}

func refuse(w http.ResponseWriter, err error) {
	e := Refusal(err)
	body, _ := json.Marshal(map[string]*Error{"error": e}) // plain values
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(e.Status)
	_, _ = w.Write(body)
}

// Refusal is any error in the terms of HTTP. What is not meant for people is
// in the log only.
func Refusal(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}

	switch {
	case errors.Is(err, session.ErrNotFound):
		return refused(http.StatusNotFound, textNoSession)
	case errors.Is(err, session.ErrExists):
		return refused(http.StatusConflict, textSessionExists)
	case errors.Is(err, schedule.ErrNotFound):
		return refused(http.StatusNotFound, textNoJob)
	case errors.Is(err, schedule.ErrNoTrigger):
		return refused(http.StatusNotFound, textNoTrigger)
	case errors.Is(err, schedule.ErrProtected):
		return refused(http.StatusForbidden, textProtected)
	}

	return refused(http.StatusInternalServerError, textInternal)
}

// Decode reads the payload of an action; members it does not know are an error, because an
// action that does less than it was asked for is worse than none.
func Decode(payload json.RawMessage, into any) error {
	if len(payload) == 0 {
		payload = json.RawMessage("{}")
	}

	dec := json.NewDecoder(bytes.NewReader(payload))
	dec.DisallowUnknownFields()
	err := dec.Decode(into)
	if bad, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return Refuse(http.StatusBadRequest, "the payload does not fit: %s cannot be of type %s", cmp.Or(bad.Field, "it"), bad.Value)
	}
	if err != nil {
		return Refuse(http.StatusBadRequest, "the payload does not fit: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	return nil
}
