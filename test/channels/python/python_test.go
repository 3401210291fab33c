// Package python is the drop-in check: the channels of Python nanobot work with
// our fakes as our own channels do. Version 0.1.5 is what most people have; the
// newest version has the platforms that it lacks.
package python

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/test/channels/certify"
)

type object = map[string]any

// platform is a fake, and how a channel of Python nanobot gets there.
type platform struct {
	head       bool // only the newest version has it
	config     object
	redirect   map[string]string // addresses that cannot be configured
	cert       []byte
	say        func(folder string) bool // lets people write, false while the channel is not connected
	want       []object                 // what the channel received, in the order of the texts
	complaints []string                 // what the channel may log
	seen       func() []string          // what people received
	wantSeen   []string
}

func received(from, chat, text string, files ...any) object {
	return object{"from": from, "chat": chat, "text": text, "files": append([]any{}, files...)}
}

func TestChannels(t *testing.T) { //nolint:tparallel // it sets the environment
	t.Setenv("PIP_NO_DEPS", "1") // of the agent only the channels are needed
	certify.Python(t, ".")
	wheel := certify.Wheel(t, "head")
	platforms := map[string]func(*testing.T) platform{
		"dingtalk": dingtalk, "discord": discord, "feishu": feishu, "matrix": matrix, "qq": qq, "slack": slack, "wecom": wecom, "whatsapp": whatsapp,
		"mattermost": mattermost, "msteams": teams, "napcat": napcat, "signal": signal,
	}
	t.Run("weixin", weixinAccount)
	for name, start := range platforms {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(t, name, wheel, start(t))
		})
	}
}

// check runs a channel while people write.
func check(t *testing.T, name, wheel string, p platform) {
	t.Helper()
	folder := t.TempDir()
	plan := object{"channel": name, "wheel": "", "config": p.config, "folder": folder, "messages": len(p.want), "redirect": p.redirect, "certificate": ""}
	if p.head {
		plan["wheel"] = wheel
	}
	if p.cert != nil {
		file := filepath.Join(folder, "cert.pem")
		if err := os.WriteFile(file, p.cert, 0o600); err != nil {
			t.Fatal(err)
		}
		plan["certificate"] = file
	}
	got := run(t, plan, func() bool { return p.say(folder) })

	if d := cmp.Diff(p.want, got.Got); d != "" {
		t.Errorf("the channel received (-want +got):\n%s", d)
	}
	for _, c := range got.Complaints {
		if !slices.Contains(p.complaints, c) {
			t.Errorf("the channel complained: %s", c)
		}
	}
	if d := cmp.Diff(p.wantSeen, p.seen()); d != "" {
		t.Errorf("people received (-want +got):\n%s", d)
	}
}

// result is what a run of a channel says.
type result struct {
	Got        []object
	Complaints []string
	Login      bool
}

// run runs a channel while people say something.
func run(t *testing.T, plan object, say func() bool) (got result) {
	t.Helper()
	arg, err := json.Marshal(plan)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		people(ctx, say)
	}()
	defer func() { cancel(); <-done }()
	out := certify.Script(t, ".", "channel.py", string(arg))
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	slices.SortFunc(got.Got, func(a, b object) int { return strings.Compare(fmt.Sprint(a["text"]), fmt.Sprint(b["text"])) })
	return got
}

// people write as soon as the channel is connected.
func people(ctx context.Context, say func() bool) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !say() {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// line is a message in short.
func line(parts ...any) string { return strings.TrimSpace(fmt.Sprintln(parts...)) }
