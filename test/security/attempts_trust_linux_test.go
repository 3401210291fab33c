package security_test

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// peerAttempts are another user of the machine who has what a browser of the owner
// has: the cookie, or a link that was not used yet.
func peerAttempts() []attempt {
	var list []attempt
	add := func(route, host string, request func(a *trial, p *ownersPage) string) {
		list = append(list, attempt{
			route: "another user of the machine has " + route, expect: "refused: a session and a link belong to who the connection shows", either: true,
			config: func(a *trial) {
				a.chats()
				a.config["gateway"] = map[string]any{"port": 0, "host": "0.0.0.0", "webui": map[string]any{"enabled": true, "hosts": []string{"*", "127.0.0.5"}}}
			},
			run: func(a *trial) {
				if os.Geteuid() != 0 {
					a.t.Skip("another user needs root")
				}
				a.gate.start()
				_, port, err := net.SplitHostPort(strings.TrimPrefix(a.gate.base, "http://"))
				if err != nil {
					a.t.Fatal(err)
				}
				a.gate.base = "http://127.0.0.1:" + port
				p := a.signIn()
				at := host
				if at == "" {
					if at = ownAddress(); at == "" {
						a.t.Skip("this machine has no address beside loopback")
					}
				}
				got := a.asOther(at, port, strings.ReplaceAll(request(a, p), "HOST", "127.0.0.1:"+port))
				status := strings.TrimPrefix(strings.SplitN(got, "\r\n", 2)[0], "HTTP/1.1 ")
				a.shows(got == "" || status != "", "no answer: %q", got)
				if strings.HasPrefix(status, "2") && !strings.Contains(got, `"signed_in":false`) || strings.HasPrefix(status, "101") || strings.Contains(got, "Set-Cookie: nanobot_") && !strings.Contains(got, "Max-Age=0") {
					a.broke("another user was served: %s", got)
				}
				if code, body := p.do(http.MethodGet, "/api/sessions", ""); code != http.StatusOK {
					a.broke("the owner was signed out: %d %s", code, body)
				}
				var devices struct{ Devices []any }
				if err := json.Unmarshal([]byte(a.cli("web", "devices", "--json").stdout), &devices); err != nil {
					a.t.Fatal(err)
				}
				if len(devices.Devices) != 1 {
					a.broke("%d devices are signed in", len(devices.Devices))
				}
			},
		})
	}
	const page = "Host: HOST\r\nX-Nanobot-Page: 1\r\nOrigin: http://HOST\r\nContent-Type: application/json\r\nConnection: close\r\n"
	get := func(path, more string) func(*trial, *ownersPage) string {
		return func(_ *trial, p *ownersPage) string {
			return "GET " + path + " HTTP/1.1\r\n" + page + "Cookie: " + p.cookie + "\r\n" + more + "\r\n"
		}
	}
	link := func(more string) func(*trial, *ownersPage) string {
		return func(a *trial, _ *ownersPage) string {
			out := a.cli("web", "--no-open").stdout
			_, code, _ := strings.Cut(out, "#/in/")
			body := jsonOf("code", strings.Fields(code)[0])
			return fmt.Sprintf("POST /webui/login HTTP/1.1\r\n%s%sContent-Length: %d\r\n\r\n%s", page, more, len(body), body)
		}
	}
	add("the cookie and reads the conversations", "127.0.0.1", get("/api/sessions", ""))
	add("the cookie and says that a proxy sent it", "127.0.0.1", get("/api/settings/raw", "X-Forwarded-For: 203.0.113.7\r\nForwarded: for=203.0.113.7\r\nVia: 1.1 proxy\r\n"))
	add("the cookie and asks at an address of the machine", "", get("/api/sessions", ""))
	add("the cookie and asks at another loopback address", "127.0.0.5", get("/api/memory", ""))
	add("the cookie and uses the IPv4 address in IPv6", "::ffff:127.0.0.1", get("/api/sessions", ""))
	add("the cookie and opens the socket", "127.0.0.1", func(_ *trial, p *ownersPage) string {
		return "GET /webui/socket?client_id=me HTTP/1.1\r\nHost: HOST\r\nOrigin: http://HOST\r\nCookie: " + p.cookie +
			"\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
	})
	add("the cookie and sends a file", "127.0.0.1", func(_ *trial, p *ownersPage) string {
		return "POST /webui/upload HTTP/1.1\r\nHost: HOST\r\nX-Nanobot-Page: 1\r\nOrigin: http://HOST\r\nContent-Type: application/octet-stream\r\nX-Nanobot-Name: x.txt\r\nCookie: " + p.cookie + "\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx"
	})
	add("the cookie beside a made-up one", "127.0.0.1", get("/api/sessions", "Cookie: nanobot_00000000=AAAA\r\n"))
	add("the cookie and asks whether it is signed in", "127.0.0.1", get("/webui/state", ""))
	add("a link and uses it at an address of the machine", "", link(""))
	add("a link and uses it at another loopback address", "127.0.0.5", link(""))
	add("a link and says that a proxy sent it", "", link("X-Forwarded-For: 203.0.113.7\r\nX-Real-IP: 203.0.113.7\r\n"))
	return list
}

// asOther sends a request as another user and returns what comes back.
func (a *trial) asOther(host, port, request string) string {
	a.t.Helper()
	script := `exec 3<>/dev/tcp/$1/$2 && printf '%s' "$3" >&3 && timeout 5 cat <&3`
	cmd := exec.CommandContext(a.t.Context(), "/bin/bash", "-c", script, "-", host, port, request)
	cmd.SysProcAttr, cmd.Dir = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}, "/"
	out, err := cmd.Output()
	a.shows(len(out) > 0, "nothing came back: %v", err)
	return string(out)
}

// ownAddress is an address of this machine that is not a loopback one.
func ownAddress() string {
	list, _ := net.InterfaceAddrs()
	for _, item := range list {
		if n, ok := item.(*net.IPNet); ok && n.IP.IsGlobalUnicast() && n.IP.To4() != nil {
			return n.IP.String()
		}
	}
	return ""
}

// silentFiles are configurations that a person wrote by hand, which say nothing about
// protection, or that somebody made look like those of Python nanobot.
func silentFiles() []attempt {
	var list []attempt
	add := func(route string, tools map[string]any, more func(a *trial)) {
		list = append(list, attempt{
			route: "a configuration by hand: " + route, expect: "contained: what it does not open is closed", either: true,
			config: func(a *trial) {
				delete(a.config, "tools")
				if tools != nil {
					a.config["tools"] = tools
				}
				if more != nil {
					more(a)
				}
			},
			run: func(a *trial) {
				a.seal()
				a.turn("look around",
					sh("cat {{home}}/diary.txt; cat {{home}}/.ssh/id_ed25519; echo forged > {{home}}/outside/forged.txt; echo forged >> {{home}}/.bashrc"),
					read("{{home}}/diary.txt"), write("{{home}}/outside/forged2.txt", "forged"))
				seen := strings.Join(a.model.lastResults(), "\n")
				for _, name := range []string{"diary.txt", ".ssh/id_ed25519"} {
					if strings.Contains(seen, a.canaries[name]) {
						a.broke("%s was read", name)
					}
				}
				for _, name := range []string{"outside/forged.txt", "outside/forged2.txt"} {
					if _, err := os.Stat(filepath.Join(a.home, name)); err == nil {
						a.broke("%s was written", name)
					}
				}
				a.shows(seen != "", "no call was made")
			},
		})
	}
	exec := func(set map[string]any) map[string]any { return map[string]any{"exec": set} }
	add("an empty section `tools`", map[string]any{}, nil)
	add("a time limit for commands only", exec(map[string]any{"timeout": 30}), nil)
	add("an empty sandbox", exec(map[string]any{"sandbox": ""}), nil)
	add("null for everything", map[string]any{"restrictToWorkspace": nil, "approval": nil, "exec": map[string]any{"sandbox": nil, "network": nil}}, nil)
	add("snake case", map[string]any{"mcp_servers": map[string]any{}, "exec": map[string]any{"path_append": ""}}, nil)
	add("settings of the search only", map[string]any{"web": map[string]any{"search": map[string]any{"apiKey": "", "maxResults": 5}}}, nil)
	add("a gateway and defaults of the agent as Python writes them", nil, func(a *trial) {
		a.config["gateway"] = map[string]any{"host": "127.0.0.1", "port": 0}
		agents, _ := a.config["agents"].(map[string]any)
		defaults, _ := agents["defaults"].(map[string]any)
		defaults["maxTokens"], defaults["temperature"], defaults["maxToolIterations"] = 8192, 0.1, 40
	})
	add("the workspace holds what Python nanobot leaves behind", nil, func(a *trial) {
		a.write(filepath.Join(a.ws, "sessions", "cli_direct.jsonl"), `{"_type":"metadata","key":"cli:direct","metadata":{},"last_consolidated":0}`+"\n")
		a.write(filepath.Join(a.ws, "memory", ".dream_cursor"), "1\n")
		a.write(filepath.Join(a.ws, "cron", "jobs.json"), `{"version":1,"jobs":[]}`)
	})
	add("the data folder holds what Python nanobot leaves behind", nil, func(a *trial) {
		a.write(filepath.Join(a.data, "history", "cli_history"), "\n# 2026-04-02 09:30:00.123\n+hello\n")
		a.write(filepath.Join(a.data, "bridge", "package.json"), "{}")
		a.write(filepath.Join(a.data, "cron", "jobs.json"), `{"version":1,"jobs":[]}`)
	})
	add("a whole file of Python nanobot lies in the workspace", nil, func(a *trial) {
		a.write(filepath.Join(a.ws, "config.json"), `{"tools":{"restrictToWorkspace":false,"exec":{"sandbox":"none"}}}`)
	})
	return list
}

// reportAttempts are a provider that reports what it likes about a call.
func reportAttempts() []attempt {
	var list []attempt
	for _, r := range [][2]string{
		{"1e300 tokens of the answer", `{"prompt_tokens":10,"completion_tokens":1e300}`},
		{"a number beyond all floats", `{"prompt_tokens":1e999,"completion_tokens":5}`},
		{"fewer than no tokens", `{"prompt_tokens":-900000,"completion_tokens":-5}`},
		{"the least integer", `{"prompt_tokens":-9223372036854775808,"completion_tokens":5}`},
		{"more than the largest integer", `{"prompt_tokens":9223372036854775808,"completion_tokens":9223372036854775808}`},
		{"absurd tokens as a text", `{"prompt_tokens":"1e300","completion_tokens":"-1"}`},
		{"that less than nothing was cached", `{"prompt_tokens":10,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":-1e18}}`},
		{"that 1e300 tokens were cached", `{"prompt_tokens":10,"completion_tokens":5,"cached_tokens":1e300}`},
		{"a cost below zero", `{"prompt_tokens":10,"completion_tokens":5,"cost":-1e300}`},
		{"an absurd cost", `{"prompt_tokens":10,"completion_tokens":5,"cost":1e300}`},
		{"absurd thinking", `{"prompt_tokens":10,"completion_tokens":5,"completion_tokens_details":{"reasoning_tokens":1e300}}`},
	} {
		list = append(list, attempt{
			route: "a provider reports " + r[0], expect: "counted as the worst case: the limit of the day stops it", either: true,
			config: func(a *trial) {
				agents, _ := a.config["agents"].(map[string]any)
				defaults, _ := agents["defaults"].(map[string]any)
				defaults["budget"] = map[string]any{"dailyUsd": 0.2, "onExceed": "stopAll"}
				defaults["maxTokens"] = 500
				a.model.report = r[1]
				a.more = []string{"http_proxy=" + strings.TrimSuffix(a.model.url, "/v1")}
				a.config["providers"] = map[string]any{"custom": map[string]any{"apiBase": "http://models.example.test/v1", "apiKey": a.key}}
				a.write(filepath.Join(a.data, "prices.json"), `{"asOf":"2026-11","prices":[{"model":"*","in":1,"out":10}]}`)
			},
			run: func(a *trial) {
				stopped := false
				for i := 0; i < 40 && !stopped; i++ {
					out := a.cli("agent", "-m", "hello")
					stopped = strings.Contains(out.stdout+out.stderr, "budget")
				}
				a.shows(len(a.model.bodies()) > 0, "nothing was asked")
				if !stopped {
					a.broke("%d calls and no limit", len(a.model.bodies()))
				}
			},
		})
	}
	return list
}
