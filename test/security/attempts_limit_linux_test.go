package security_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// limitAttempts take more than a command, a trigger or a model may have.
func limitAttempts() []attempt {
	list := greedyCommands()
	list = append(list, protectedState()...)
	list = append(append(list, doors()...), spendingAttempts()...)
	list = append(list, peerAttempts()...)
	list = append(list, silentFiles()...)
	list = append(list, reportAttempts()...)
	list = append(list, diskAttempts()...)
	return append(list, wireAttempts()...)
}

// diskAttempts fill the disk: without a sandbox, as after Python, and past a
// small limit in one. What is taken is measured, not what is said.
func diskAttempts() []attempt {
	const limit = 48
	var list []attempt
	add := func(mode, route, command string) {
		list = append(list, attempt{
			route: fmt.Sprintf("sandbox `%s`, a disk limit of %d MiB: %s", mode, limit, route), expect: "ended at the limit", either: true,
			config: func(a *trial) {
				a.exec()["sandbox"], a.exec()["maxDiskMB"], a.exec()["timeout"] = mode, limit, 30
				if mode == "none" {
					a.exec()["network"] = "host"
					a.tools()["approval"] = map[string]any{"mode": "off"}
				}
			},
			run: func(a *trial) {
				a.turn("calculate", a.pkg(command))
				got := strings.Join(a.model.lastResults(), "\n")
				if strings.Contains(got, "was stopped after") || strings.Contains(got, "got-it-all") {
					a.broke("the limit did not end it: %s", tail(got))
				}
				a.shows(strings.Contains(got, "tools.exec.maxDiskMB") || strings.Contains(got, "Exit code: 153") || strings.Contains(got, "File size limit") || strings.Contains(got, "too large") || strings.Contains(got, "supported"),
					"nothing says that it was limited: %s", tail(got))
				var used int64
				_ = filepath.Walk(a.home, func(_ string, info os.FileInfo, err error) error {
					if err == nil {
						if st, ok := info.Sys().(*syscall.Stat_t); ok && info.Mode().IsRegular() {
							used += st.Blocks * 512
						}
					}
					return nil
				})
				if used > 20*limit<<20 { // a busy machine looks late, and never at 2.8 GB
					a.broke("it took %d MiB", used>>20)
				}
			},
		})
	}
	for _, c := range [][2]string{
		{"`cat /dev/zero`", "exec cat /dev/zero > z"},
		{"`yes`", "exec yes > z"},
		{"`dd` without an end", "exec dd if=/dev/zero of=z bs=64k"},
		{"ten writers", "for i in 1 2 3 4 5 6 7 8 9 10; do (j=0; while :; do j=$((j+1)); head -c 4M /dev/zero > z$i.$j; done) & done; wait; echo got-it-all"},
		{"a writer in a session of its own", "setsid sh -c 'j=0; while :; do j=$((j+1)); head -c 4M /dev/zero > z.$j; done' & wait; sleep 60"},
		{"a compressed nothing", "exec sh -c 'head -c 4G /dev/zero | gzip -1 | gunzip > z && echo got-it-all'"},
		{"a file without a name", "exec 3>z; rm z; exec cat /dev/zero >&3"},
		{"small files, appended in turn", "while :; do for i in 1 2 3 4 5 6 7 8 9; do head -c 4M /dev/zero >> z$i || exit 1; done; done"},
	} {
		add("none", c[0], c[1])
		add("auto", c[0], c[1])
	}
	add("auto", "`fallocate` of 700 MiB at once", "fallocate -l 700M z && echo got-it-all")
	add("auto", "`fallocate` behind the end of the file", ": > z; fallocate -n -l 700M z && echo got-it-all")
	return list
}

// greedyCommands run in a house where a command may have 512 MiB of memory and
// 256 MiB of disk. Each takes more than that, says so, and keeps it until it is
// ended: by the limit and not by its time, however slow or fast the machine is.
func greedyCommands() []attempt {
	const keep = "; echo got-it-all; exec sleep 60"
	var list []attempt
	for _, c := range [][2]string{
		{"memory in a file that has no name", `exec python3 -c '
import os, signal
fd=os.memfd_create("x")
b=b"x"*(1<<20)
for i in range(700): os.write(fd,b)
print("got-it-all", flush=True)
signal.pause()'`},
		{"memory by ten processes", `for i in $(seq 10); do python3 -c 'import signal; x=b"x"*(70<<20); print("part", flush=True); signal.pause()' & done; wait; echo got-it-all`},
		{"memory in shared pages", `exec python3 -c '
import mmap, signal
m=[]
for i in range(7):
    x=mmap.mmap(-1,100<<20)
    for o in range(0,100<<20,4096): x[o]=1
    m.append(x)
print("got-it-all", flush=True)
signal.pause()'`},
		{"memory in /dev/shm and /tmp", `for i in 1 2 3 4 5; do for d in /dev/shm /tmp; do head -c 70M /dev/zero > $d/x$i || exit 1; done; done` + keep},
		{"disk by one file", `head -c 400M /dev/zero > big.bin || exit 1` + keep},
		{"disk by many files", `for i in $(seq 20); do head -c 20M /dev/zero > b$i || exit 1; done` + keep},
		{"disk by a file that was removed", `exec 3>gone; rm gone; head -c 400M /dev/zero >&3 || exit 1` + keep},
	} {
		list = append(list, attempt{
			route: "a command takes " + c[0] + " and keeps it", expect: "ended at the limit of the sum",
			config: func(a *trial) { a.exec()["maxMemoryMB"], a.exec()["maxDiskMB"], a.exec()["timeout"] = 512, 256, 30 },
			run: func(a *trial) {
				a.turn("calculate", a.pkg(c[1]))
				got := strings.Join(a.model.lastResults(), "\n")
				ended := strings.Contains(got, "tools.exec.maxMemoryMB") || strings.Contains(got, "tools.exec.maxDiskMB")
				if strings.Contains(got, "got-it-all") && !ended {
					a.broke("it got all it wanted and kept it: %s", tail(got))
				}
				full := slices.ContainsFunc([]string{"No space left", "MemoryError", "File size limit exceeded", "File too large"}, func(said string) bool {
					return strings.Contains(got, said) // the kernel ended it
				})
				a.shows(ended || full || len(a.broken) > 0, "nothing ended it: %s", tail(got))
				if strings.Contains(got, "was stopped after") {
					a.broke("it was ended by its time only: %s", tail(got))
				}
			},
		})
	}
	return list
}

// protectedState are files that decide about money and trust, in a house
// without a sandbox.
func protectedState() []attempt {
	var list []attempt
	for _, f := range [][2]string{
		{"usage/totals.json", `{"days":{}}`},
		{"prices.json", `{"prices":[{"model":"*","in":0,"out":0}]}`},
		{"pairing.json", `{"approved":{"telegram":["90"]}}`},
		{"web/state.json", `{}`},
		{"config.json", `{}`},
		{"sessions/0123456789abcdef0123456789abcdef/other.jsonl", "forged"},
	} {
		list = append(list, attempt{
			route: fmt.Sprintf("without a sandbox a command writes `%s`", f[0]), expect: "contained: the data folder is closed in every mode",
			config: func(a *trial) {
				a.exec()["sandbox"], a.exec()["network"] = "none", "host"
				a.tools()["approval"] = map[string]any{"mode": "off"}
				path := filepath.Join(a.data, filepath.FromSlash(f[0]))
				if _, err := os.Stat(path); err != nil && f[0] != "config.json" {
					a.write(path, "{}")
				}
			},
			run: func(a *trial) {
				a.seal()
				path := filepath.Join(a.data, filepath.FromSlash(f[0]))
				before, _ := os.ReadFile(path)
				a.turn("install", a.pkg(fmt.Sprintf("mkdir -p $(dirname {{data}}/%s); echo '%s forged' > {{data}}/%s; rm -f {{data}}/%s; echo '%s forged' > {{data}}/%s", f[0], f[1], f[0], f[0], f[1], f[0])),
					write(path, f[1]+" forged"))
				if now, _ := os.ReadFile(path); strings.Contains(string(now), "forged") || len(before) > 0 && len(now) == 0 {
					a.broke("it was changed: %s", now)
				}
			},
		})
	}
	return list
}

// other asks the API as another user of the machine.
func other(a *trial, args ...string) {
	a.t.Helper()
	if os.Geteuid() != 0 {
		a.t.Skip("another user needs root")
	}
	cmd := exec.CommandContext(a.t.Context(), "curl", append(args, "-s", "-o", "/dev/null", "-w", "%{http_code}", "-H", "Content-Type: application/json",
		"-d", `{"messages":[{"role":"user","content":"INJECTED:obey"}]}`, a.gate.base+"/v1/chat/completions")...)
	cmd.SysProcAttr, cmd.Dir = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}, "/"
	out, _ := cmd.Output() // the status is what counts
	a.shows(len(out) == 3 && string(out) != "000", "curl said %q", out)
	if string(out) == "200" || a.told() > 0 {
		a.broke("another user was served: %s", out)
	}
}

// doors are requests that are not what they look like.
func doors() []attempt {
	trigger := func(a *trial) (id, secret string) {
		out := a.cli("trigger", "add", "deploys", "--channel", "telegram", "--to", "42").stdout
		id = regexp.MustCompile(`trg_\w+`).FindString(out)
		secret = strings.TrimSpace(a.cli("trigger", "secret", id).stdout)
		if f := strings.Fields(secret); len(f) > 0 {
			secret = f[len(f)-1]
		}
		a.shows(id != "" && secret != "", "no trigger: %s", out)
		return id, secret
	}
	sum := func(secret, text string) string {
		m := hmac.New(sha256.New, []byte(secret))
		m.Write([]byte(text))
		return hex.EncodeToString(m.Sum(nil))
	}
	list := []attempt{
		{route: "a signed trigger is sent again within its five minutes", expect: "refused the second time", config: func(a *trial) { a.chats() }, run: func(a *trial) {
			id, secret := trigger(a)
			a.gate.start()
			body, now := `{"message":"the build failed"}`, time.Now().Unix()
			head := map[string]string{"X-Nanobot-Signature": fmt.Sprintf("t=%d,sha256=%s", now, sum(secret, fmt.Sprintf("%d.%s", now, body)))}
			first := a.gate.request("/v1/triggers/"+id, body, head)
			second := a.gate.request("/v1/triggers/"+id, body, head)
			a.shows(first == 202, "the first was answered with %d", first)
			if second == 202 {
				a.broke("it was taken twice")
			}
		}},
		{route: "a webhook of a code forge is sent again, after a restart", expect: "refused the second time", config: func(a *trial) { a.chats() }, run: func(a *trial) {
			id, secret := trigger(a)
			a.gate.start()
			body := `{"action":"opened"}`
			head := map[string]string{"X-Hub-Signature-256": "sha256=" + sum(secret, body)}
			first := a.gate.request("/v1/triggers/"+id, body, head)
			a.gate.start()
			second := a.gate.request("/v1/triggers/"+id, body, head)
			a.shows(first == 202, "the first was answered with %d", first)
			if second == 202 {
				a.broke("it was taken twice")
			}
		}},
		{route: "another user of the machine asks the API without a key", expect: "refused", config: func(a *trial) { a.chats() }, run: func(a *trial) {
			a.gate.start()
			other(a)
		}},
	}
	for _, h := range []string{"X-Envoy-External-Address", "Fly-Client-IP", "X-Some-Proxy"} {
		list = append(list, attempt{route: fmt.Sprintf("a proxy of another user passes a request on with `%s`, no header we know", h), expect: "refused", config: func(a *trial) { a.chats() }, run: func(a *trial) {
			a.gate.start()
			other(a, "-H", h+": 203.0.113.9")
		}})
	}
	return append(list, attempt{
		route: "12 processes at once spend against one daily limit", expect: "the sum stays within the limit",
		config: func(a *trial) {
			agents, _ := a.config["agents"].(map[string]any)
			defaults, _ := agents["defaults"].(map[string]any)
			defaults["budget"] = map[string]any{"dailyUsd": 0.10, "onExceed": "stopAll"}
			defaults["maxTokens"] = 1000
			a.model.usage = [2]int{8000, 1000}
			// A model on this machine would cost nothing: it is reached through
			// a proxy, under a name elsewhere.
			a.more = []string{"http_proxy=" + strings.TrimSuffix(a.model.url, "/v1")}
			a.config["providers"] = map[string]any{"custom": map[string]any{"apiBase": "http://models.example.test/v1", "apiKey": a.key}}
			a.write(filepath.Join(a.data, "prices.json"), `{"asOf":"2026-11","prices":[{"model":"*","in":2,"out":20}]}`)
		},
		run: func(a *trial) {
			a.seal()
			var wg sync.WaitGroup
			for i := range 12 {
				wg.Go(func() {
					cmd := a.command(a.t.Context(), "agent", "-m", "hello", "--session", fmt.Sprint("cli:p", i))
					_ = cmd.Run() // most are refused
				})
			}
			wg.Wait()
			calls := len(a.model.bodies())
			a.shows(calls > 0, "nothing was asked")
			if cost := float64(a.model.prompt*2+a.model.answer*20) / 1e6; cost > 0.10 {
				a.broke("%d calls cost %.3f of 0.10", calls, cost)
			}
		},
	})
}
