package openai

import (
	"fmt"
	"testing"
)

// pieces is the stream of an answer of n tokens as vendors send it.
func pieces(n int) [][]byte {
	words := []string{" the", " of", " a", " model", ".", "\\n\\n", " \\\"quoted\\\"", " é", " function"}
	out := make([][]byte, n)
	for i := range out {
		out[i] = fmt.Appendf(nil, `{"id":"chatcmpl-B9MHDbslfkBeAs8l4bebGdFOJ6PeG","object":"chat.completion.chunk","created":1741570283,"model":"gpt-4.1-2025-04-14","service_tier":"default","system_fingerprint":"fp_50cad350e4","choices":[{"index":0,"delta":{"content":"%s"},"logprobs":null,"finish_reason":null}],"usage":null}`, words[i%len(words)])
	}
	return out
}

// BenchmarkAnswer reads an answer of 200 tokens with the quick reader and with
// encoding/json alone (decision 146).
func BenchmarkAnswer(b *testing.B) {
	stream := pieces(200)

	b.Run("quick", func(b *testing.B) {
		b.ReportAllocs()
		var o ordinary
		for b.Loop() {
			for _, data := range stream {
				if !o.decode(data) {
					b.Fatalf("not ordinary: %s", data)
				}
				_, _ = contentText(o.chunk.Choices[0].Delta.Content)
			}
		}
	})

	b.Run("json", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			for _, data := range stream {
				c, err := decodeChunk(data)
				if err != nil {
					b.Fatal(err)
				}
				_, _ = contentText(c.Choices[0].Delta.Content)
			}
		}
	})
}
