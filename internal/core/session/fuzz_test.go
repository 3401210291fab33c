package session

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/base/store/storetest"
)

// Any bytes may be found in a log: no panic, no whole line lost, and the log
// can be used afterwards.
func FuzzLoad(f *testing.F) {
	f.Add([]byte(""))
	f.Add([]byte("{}\n[]\nnull\n\x00\x00\n"))
	f.Add([]byte(pythonLog("k", "{}", "3", `{"role":"user","content":[{"type":"text","text":"x"}]}`, `{"role":"tool"}`, "")))
	f.Add([]byte(`{"_type":"metadata","key":"k","metadata":{"_replay":{"index":5,"offset":3,"count":7,"at":0},"open_turn":{"id":1}}}` + "\n"))
	f.Add([]byte(`{"role":"user","content":"a"}` + "\n" + `{"_type":"metadata","key":"k","metadata":{"_replay":{"index":1,"offset":30,"count":1,"at":30},"open_turn":{"id":"t"}}}` + "\n"))
	st := openStore(f, storetest.Disk, f.TempDir())
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(st.Dir(), "aw.jsonl")
		must(t, os.RemoveAll(filepath.Join(st.Dir(), hashName("k")+suffixLog)))
		plant(t, path, data)
		s, err := st.fresh(t, storetest.Disk).Acquire(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		live, total := len(s.Messages()), s.Len()
		if live > total || s.LastConsolidated() > total {
			t.Errorf("live %d, consolidated %d of %d", live, s.LastConsolidated(), total)
		}
		if _, err := s.Recover(nil); err != nil {
			t.Fatal(err)
		}
		must(t, s.BeginTurn("t", user("q")))
		must(t, s.EndTurn(answer("a")))
		want := gist(s.Messages())
		path = s.logPath()
		must(t, s.Release())
		s = acquire(t, st.fresh(t, storetest.Disk), "k")
		if got := gist(s.Messages()); len(got) != len(want) || got[len(got)-1] != "assistant:a" {
			t.Errorf("after reopen %q, want %q", got, want)
		}
		must(t, s.Release())
		if path != filepath.Join(st.Dir(), "aw.jsonl") {
			return // the bytes named another key and were left alone
		}
		kept, err := os.ReadFile(path)
		must(t, err)
		if end := bytes.LastIndexByte(data, '\n') + 1; !bytes.HasPrefix(kept, data[:end]) {
			t.Errorf("whole lines were lost")
		}
	})
}

func FuzzRecord(f *testing.F) {
	f.Add([]byte(`{"role":"user","content":"x","ts":1,"media":["a"],"_runtime_context":{"version":1,"suffix":"s"}}`))
	f.Add([]byte(`{"role":"assistant","content":[{"type":"x","y":1}],"thinking_blocks":[{"a":1}],"tool_calls":[{"id":"a","function":{"name":"n","arguments":{"b":2}}}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var r, again Record
		if r.UnmarshalJSON(data) != nil {
			return
		}
		line, err := r.appendLine(nil)
		if err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		if bytes.IndexByte(line, '\n') >= 0 {
			t.Fatalf("newline in %q", line)
		}
		if err := again.UnmarshalJSON(line); err != nil {
			t.Fatalf("what was written cannot be read: %v: %s", err, line)
		}
		twice, err := again.appendLine(nil)
		if err != nil || !bytes.Equal(line, twice) {
			t.Errorf("not stable:\n%s\n%s", line, twice)
		}
	})
}

// FuzzQuick holds the quick way of reading a line against the general one.
func FuzzQuick(f *testing.F) {
	for _, line := range []string{
		`{"role":"user","content":"x","ts":1,"media":["a"],"_runtime_context":{"version":1,"suffix":"s"}}`,
		`{"role": "assistant", "content": "a\n\"\u00e4\/", "timestamp": "2026-01-02T03:04:05.678", "turn_id": "t", "latency_ms": 12}`,
		`{"role":"tool","tool_call_id":"a","name":"exec","content":"x","is_error":true,"_hidden_history":false}`,
		`{"role":"assistant","content":"","tool_calls":[{"id":"a","function":{"name":"n","arguments":"{}"}}],"reasoning_content":""}`,
		`{"role":"user","content":[{"type":"text","text":"]}"}],"inbound_id":"i","sender_id":"s","_command":true,"_internal":true}`,
		`{"role":"user","role":"tool","content":{"type":"text","text":"a"},"content":"b","ts":1,"ts":0}`,
		`{"role":"user","content":"\xff","latency_ms":01,"_origin":"o","_channel_delivery":true,"_interrupted":true,"_denied":true}`,
	} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var quick, general Record
		if !quick.quick(data) {
			return
		}
		if err := general.general(data); err != nil {
			t.Fatalf("%q is read quickly, but %v", data, err)
		}
		if diff := cmp.Diff(general, quick); diff != "" {
			t.Errorf("%q, general against quick:\n%s", data, diff)
		}
	})
}
