package openai

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// seeds are chunks, ordinary or not.
func seeds() map[string]bool {
	return map[string]bool{
		`{"id":"c","object":"chat.completion.chunk","created":1712,"model":"m","system_fingerprint":null,"choices":[{"index":0,"delta":{"content":"a \"b\" \n\\ \/ é"},"logprobs":null,"finish_reason":null}],"usage":null}`: true,
		`{"choices":[{"index":0,"delta":{"content":"a"}}]}`:                                                                                        true,
		` { "choices" : [ { "delta" : { "content" : "a" } , "index" : 12 } ] } `:                                                                   true,
		`{"choices":[{"index":0,"delta":{"role":"assistant","content":null,"reasoning_content":"t"},"finish_reason":null}]}`:                       true,
		`{"choices":[{"index":0,"delta":{"content":"","reasoning":"t","reasoning_content":null,"refusal":null,"tool_calls":null}}],"error":null}`:  true,
		`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"type":"function","function":{"arguments":"{\"p\":"}}]},"finish_reason":null}]}`: true,
		`{"choices":[{"index":0,"delta":{}}]}`:                                                                           true,
		`{"choices":[{"index":0,"delta":{"content":"\u00e9"}}]}`:                                                         false,
		`{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}]}`:                                       false,
		`{"choices":[{"index":0,"delta":{"content":"a","content":"b"}}]}`:                                                false,
		`{"choices":[{"index":0,"delta":{"content":["a"]}}]}`:                                                            false,
		`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"x","function":{"name":"f","arguments":""}}]}}]}`: false,
		`{"choices":[{"index":0,"delta":{"tool_calls":[]}}]}`:                                                            false,
		`{"choices":[{"index":0,"delta":{"content":"a"}},{"index":1,"delta":{"content":"b"}}]}`:                          false,
		`{"choices":[{"index":0,"delta":{"content":"a"}}],"usage":{"prompt_tokens":1}}`:                                  false,
		`{"choices":[],"usage":null}`:                                                                                    false,
		`{"choices":[{"index":01,"delta":{"content":"a"}}]}`:                                                             false,
		`{"choices":[{"index":0,"delta":{"content":"a"}}]} x`:                                                            false,
		`{"choices":[{"index":0,"delta":{"content":"a"}}]`:                                                               false,
		`{"Choices":[{"index":0,"delta":{"content":"a"}}]}`:                                                              false,
		`{"object":"error","choices":[{"index":0,"delta":{"content":"a"}}]}`:                                             false,
		`{"error":{"message":"m"}}`:                                                                                      false,
		"{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\x01\"}}]}":                                                false,
		"{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\xff\"}}]}":                                                true,
		`{"created":1.5,"choices":[{"index":0,"delta":{"content":"a"}}]}`:                                                false,
		`{"choices":[{"index":0,"delta":{"content":"a"}}],"extra":1}`:                                                    false,
		`[]`: false, `null`: false, ``: false, `{`: false, `{"choices":[{"index":0,"delta":{"content":"a\`: false,
	}
}

// agree checks that a chunk which the quick reader takes is the one that
// encoding/json reads.
func agree(t *testing.T, data []byte) (taken bool) {
	t.Helper()
	var o ordinary
	if !o.decode(data) {
		return false
	}
	want, err := decodeChunk(data)
	if err != nil {
		t.Fatalf("%q is taken, but encoding/json says %v", data, err)
	}
	if d := cmp.Diff(*want, o.chunk, cmp.AllowUnexported(chunk{}, choice{}, delta{}, callDelta{}, functionDelta{}, usage{})); d != "" {
		t.Fatalf("%q differs: %s", data, d)
	}
	return true
}

func TestOrdinaryChunks(t *testing.T) {
	t.Parallel()
	for data, want := range seeds() {
		if got := agree(t, []byte(data)); got != want {
			t.Errorf("%q: taken %v, want %v", data, got, want)
		}
	}
}

// One reader serves a whole stream: nothing may stay behind.
func TestOrdinaryIsReused(t *testing.T) {
	t.Parallel()
	var o ordinary
	for data := range seeds() {
		if !o.decode([]byte(data)) {
			continue
		}
		var fresh ordinary
		fresh.decode([]byte(data))
		if d := cmp.Diff(fresh.chunk, o.chunk, cmp.AllowUnexported(chunk{}, choice{}, delta{}, callDelta{}, functionDelta{}, usage{})); d != "" {
			t.Errorf("%q differs after others: %s", data, d)
		}
	}
}

func FuzzOrdinary(f *testing.F) {
	for s := range seeds() {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		agree(t, data)
		var want string
		_ = json.Unmarshal(data, &want)
		if len(data) > 0 && data[0] == '"' {
			if got := unquote(data); got != want {
				t.Errorf("unquote(%q) = %q, want %q", data, got, want)
			}
		}
	})
}

func BenchmarkDecodeChunk(b *testing.B) {
	data := []byte(`{"id":"chatcmpl-1234567890","object":"chat.completion.chunk","created":1712345678,"model":"some-model-name","system_fingerprint":"fp_12345","choices":[{"index":0,"delta":{"content":" word"},"logprobs":null,"finish_reason":null}]}`)
	b.Run("quick", func(b *testing.B) {
		var o ordinary
		b.ReportAllocs()
		for b.Loop() {
			if !o.decode(data) {
				b.Fatal("not ordinary")
			}
		}
	})
	b.Run("json", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := decodeChunk(data); err != nil {
				b.Fatal(err)
			}
		}
	})
}
