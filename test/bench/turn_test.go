package main

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/nanobot-go/nanobot"
)

// BenchmarkTurn is one turn in a running process, for profiling.
func BenchmarkTurn(b *testing.B) {
	for _, stored := range []int{10, 10000} {
		b.Run(fmt.Sprint(stored), func(b *testing.B) {
			srv := newServer(false)
			defer srv.Close()
			dir := b.TempDir()
			conf, ws, err := home(filepath.Join(dir, "h"), srv.URL, "")
			if err != nil {
				b.Fatal(err)
			}
			if _, err := fill(b.Context(), filepath.Join(dir, "h"), ws, stored); err != nil {
				b.Fatal(err)
			}
			ctx := b.Context()
			bot, err := nanobot.New(ctx, nanobot.WithConfigFile(conf), nanobot.WithWorkspace(ws), nanobot.WithEnv(env(dir)))
			if err != nil {
				b.Fatal(err)
			}
			defer bot.Close()
			for b.Loop() {
				if _, err := bot.Run(ctx, nanobot.Input{Text: "hello", Session: "bench"}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
