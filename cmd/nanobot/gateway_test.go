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
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
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
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
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
