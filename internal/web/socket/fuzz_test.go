package socket

import (
	"bytes"
	"context"
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/guard"
)

// Whatever a client sends, it breaks nothing and every answer is JSON.
func FuzzFrame(f *testing.F) {
	for _, s := range []string{
		`hello`, `{"content":"x"}`, `{"type":"new_chat","workspace_scope":{"project_path":"p","access_mode":"full"}}`, `{"type":"attach","chat_id":"a","last_seq":-1}`,
		`{"type":"message","chat_id":"a","content":"x","media":[{"data_url":"data:image/png;base64,AAAA","name":"x"}],"session_mentions":["a",{"key":"b"}],"mcp_presets":[1]}`,
		`{"type":"set_sidebar_state","state":{"a":1}}`, `{"type":"webui_request","request_id":"1","action":"a.b","payload":{"x":[1]}}`,
		`{"type":"fork_chat","source_chat_id":"a","before_user_index":0}`, `{"type":"transcribe_audio","request_id":"r","data_url":"data:audio/ogg;base64,AA"}`,
		`{"type":"set_workspace_scope","chat_id":"a","workspace_scope":{}}`, `{"type":"new_temporary_chat"}`, `{"type":"message","chat_id":"a","content":"ls","user_shell":true}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		d := deps(t, time.Now)
		c := build(t, d, Options{
			API:        &clerk{},
			Scope:      func(_ context.Context, _ bus.Route, want guard.Scope, _ bool) (guard.Scope, error) { return want, nil },
			Fork:       func(context.Context, bus.Route, bus.Route, int, int, string) error { return nil },
			Transcribe: func(context.Context, string, time.Duration) (string, string) { return "heard", "" },
		}, `{"token":"x"}`)
		l := &life{submit: func(context.Context, bus.Inbound) error { return nil }}
		s := &socket{c: c, life: l, person: person{client: "fuzz", proven: true}, home: newChatID(), wake: make(chan struct{}, 1), places: map[*conversation]*place{}, local: true}
		c.hub.join(s)
		var wg sync.WaitGroup
		r := receiver{socket: s, wg: &wg}
		r.contained(t.Context(), data)
		wg.Wait()
		for _, reply := range s.replies {
			if !json.Valid(reply) || bytes.Contains(reply, []byte("internal error")) && !bytes.Contains(data, []byte("panic")) {
				t.Errorf("%q is answered by %s", data, reply)
			}
		}
		c.hub.leave(s)
	})
}
