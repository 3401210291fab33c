package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// afterwards runs a command when the script is over, whatever became of it: a
// gateway in the background must not outlive its test.
func afterwards(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: afterwards command [args...]")
	}
	ts.Defer(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
		defer cancel()
		_ = scriptCommand(ctx, ts, args).Run() // most often there is nothing left to end
	})
}

// httpCommand asks the gateway that FILE, the output of gateway status --json,
// tells of. What it answers is kept in the file answer.
func httpCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 4 {
		ts.Fatalf("usage: http FILE STATUS METHOD PATH [HEADER:VALUE...] [BODY]")
	}
	var status struct {
		Address string `json:"address"`
	}
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &status))
	want, err := strconv.Atoi(args[1])
	ts.Check(err)
	var body string
	header := http.Header{"Content-Type": {"application/json"}}
	for _, a := range args[4:] {
		if name, value, ok := strings.Cut(a, ": "); ok && !strings.HasPrefix(a, "{") {
			header.Set(name, value)
		} else {
			body = a
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, args[2], "http://"+status.Address+args[3], strings.NewReader(body))
	ts.Check(err)
	req.Header = header
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	ts.Check(err)
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	ts.Check(err)
	if resp.StatusCode != want {
		ts.Fatalf("%s %s: %s, want %d\n%s", args[2], args[3], resp.Status, want, data)
	}
	ts.Check(os.WriteFile(ts.MkAbs("answer"), data, 0o600))
}

// another asks for the status of a gateway until it is not the one that FILE
// tells of any more. What it is told is kept in the file another, and in the
// file process whether it is the same process.
func another(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: another FILE command [args...]")
	}
	type status struct {
		Running bool      `json:"running"`
		PID     int       `json:"pid"`
		Started time.Time `json:"started_at"`
	}
	read := func(data []byte) (s status) {
		ts.Check(json.Unmarshal(data, &s))
		return s
	}
	was := read([]byte(ts.ReadFile(args[0])))
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	gone := 0
	for {
		out, _ := scriptCommand(ctx, ts, args[1:]).Output() // not running is an exit code
		if len(out) > 0 {
			now := read(out)
			if !now.Running {
				gone++ // between two there may be a moment without one
			}
			if now.Running && !now.Started.Equal(was.Started) || gone > 50 {
				ts.Check(os.WriteFile(ts.MkAbs("another"), out, 0o600))
				ts.Check(os.WriteFile(ts.MkAbs("process"), strconv.AppendBool([]byte("same: "), now.PID == was.PID), 0o600))
				return
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			ts.Fatalf("it is still the same after a while:\n%s", out)
		}
	}
}
