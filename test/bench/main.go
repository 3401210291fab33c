// Command bench measures nanobot against a floor: a minimal Go program that
// sends the same HTTP requests and fsyncs one line per message. All figures of
// a run come from one machine in one go; ratios are what counts.
//
//	go run ./test/bench            everything, as a Markdown table
//	go run ./test/bench -quick     fewer repetitions
//	go run ./test/bench -only turn one part: oneshot, turn, sessions, prefix, grep, read, search, exec, fetch, year, gateway, load, platforms, channels, soak
//	go run ./test/bench -against REV  this program beside that of a commit, rounds in turn
//	go run ./test/bench -only search -messages 1000000
//	go run ./test/bench -only soak -turns 100000 -over 1h
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/test/program"
)

// row is one line of the results table.
type row struct{ what, ours, floor, limit, verdict string }

type bench struct {
	dir      string // scratch
	binary   string
	floor    string
	self     string
	quick    bool
	messages int // of the search index
	rows     []row
	tables   []string // beside that of the rows
	budget   budget

	turnsWanted int           // of the soak
	over        time.Duration // the time these take; 0: as fast as can be
	hanging     string        // platform that hangs
	more        []string      // variables of the environment of a gateway, beside ours
	profiles    string        // folder for profiles of gateways; "" starts the real program
}

func main() {
	quick := flag.Bool("quick", false, "fewer repetitions")
	only := flag.String("only", "", "run one part")
	messages := flag.Int("messages", 100000, "messages of the search index")
	turns := flag.Int("turns", 20000, "turns of the soak")
	hanging := flag.String("hanging", "slack", "platform that hangs: telegram, slack, discord, mattermost, matrix")
	over := flag.Duration("over", 0, "time that the turns of the soak take; 0: as fast as can be")
	rev := flag.String("against", "", "compare with the program of this commit instead")
	rounds := flag.Int("rounds", 5, "rounds of a comparison")
	profiles := flag.String("profiles", "", "write profiles of the gateway into this folder; times are not comparable then")
	flag.Parse()
	if flag.NArg() > 0 { // a child process that measures one thing
		if err := child(flag.Args()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	b := &bench{quick: *quick, messages: *messages, turnsWanted: *turns, over: *over, hanging: *hanging, profiles: *profiles}
	work := func() error { return run(b, *only) }
	if *rev != "" {
		work = func() error { return against(b, *rev, *rounds) }
	}
	if err := withPrograms(b, work); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// budget is the part of budget.json that is measured here.
type budget struct {
	Binary       int64  `json:"binary_bytes"`
	OneShotRSS   int64  `json:"oneshot_rss_bytes"`
	FirstRequest int    `json:"first_request_bytes"`
	GatewayReady millis `json:"gateway_ready_ms"`
	OneShotStart int    `json:"oneshot_start_floors"`
	ExecOverhead millis `json:"exec_overhead_ms"`
	WebFetch     millis `json:"web_fetch_ms"`
}

// millis is a time in budget.json.
type millis int

func (m millis) time() time.Duration { return time.Duration(m) * time.Millisecond }

func readBudget() (b budget, err error) {
	raw, err := os.ReadFile("test/arch/budget.json")
	if err != nil {
		return b, fmt.Errorf("run it in the root of the repository: %w", err)
	}
	if err := json.Unmarshal(raw, &b); err != nil {
		return b, fmt.Errorf("budget.json: %w", err)
	}
	return b, nil
}

// withPrograms builds the programs into a scratch folder and does something with them.
func withPrograms(b *bench, work func() error) error {
	var err error
	if b.budget, err = readBudget(); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "nanobot-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b.dir, b.binary, b.floor, b.self = dir, filepath.Join(dir, "nanobot"), filepath.Join(dir, "floor"), filepath.Join(dir, "bench")
	for out, pkg := range map[string]string{b.binary: "./cmd/nanobot", b.floor: "./test/bench/floor", b.self: "./test/bench"} {
		if err := program.Build(context.Background(), nil, out+".built", pkg); err != nil {
			return err
		}
		// Copied, as an installed program is: what the linker wrote through a
		// mapping lies scattered in the page cache and starts 1 to 2 ms later.
		if msg, err := exec.Command("cp", out+".built", out).CombinedOutput(); err != nil {
			return fmt.Errorf("install %s: %w\n%s", pkg, err, msg)
		}
	}
	return work()
}

func run(b *bench, only string) error {
	parts := []struct {
		name string
		run  func() error
	}{{"oneshot", b.oneShot}, {"turn", b.turns}, {"sessions", b.sessions}, {"prefix", b.prefix}, {"grep", b.grep}, {"read", b.read}, {"search", b.search}, {"exec", b.exec}, {"fetch", b.fetch}, {"year", b.year}, {"gateway", b.gateways}, {"load", b.load}, {"platforms", b.platforms}, {"channels", b.channels}, {"soak", b.soak}}
	for _, p := range parts {
		if only != p.name && (only != "" || p.name == "soak") { // the soak takes long and is asked for by name
			continue
		}
		fmt.Fprintf(os.Stderr, "%s...\n", p.name)
		if err := p.run(); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	b.print()
	return nil
}

func (b *bench) add(what, ours, floor, limit string, ok bool) {
	verdict := "met"
	if !ok {
		verdict = "**missed**"
	}
	b.rows = append(b.rows, row{what, ours, floor, limit, verdict})
}

func (b *bench) print() {
	fmt.Printf("%s %s/%s, %d cores, %s\n\n", runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), time.Now().UTC().Format("2006-01-02"))
	fmt.Println("| Measure | nanobot | floor | target | |")
	fmt.Println("|---|---|---|---|---|")
	for _, r := range b.rows {
		fmt.Printf("| %s | %s | %s | %s | %s |\n", r.what, r.ours, r.floor, r.limit, r.verdict)
	}
	for _, t := range b.tables {
		fmt.Printf("\n%s", t)
	}
}

func (b *bench) times(full, quick int) int {
	if b.quick {
		return quick
	}
	return full
}

func median(d []time.Duration) time.Duration {
	s := slices.Clone(d)
	slices.Sort(s)
	return s[len(s)/2]
}

func ms(d time.Duration) string { return fmt.Sprintf("%.2f ms", float64(d.Microseconds())/1000) }

// home writes a configuration that talks to the given server.
func home(dir, url string, more string) (configFile, workspace string, err error) {
	workspace = filepath.Join(dir, "workspace")
	configFile = filepath.Join(dir, "config.json")
	if err := os.MkdirAll(workspace, 0o700); err != nil {
		return "", "", err
	}
	conf := fmt.Sprintf(`{"agents":{"defaults":{"model":"custom/bench","provider":"custom"%s}},"providers":{"custom":{"apiBase":%q,"apiKey":"bench-key"}},"tools":{"restrictToWorkspace":true}}`, more, url+"/v1")
	if !json.Valid([]byte(conf)) {
		return "", "", fmt.Errorf("bad config %s", conf)
	}
	return configFile, workspace, os.WriteFile(configFile, []byte(conf), 0o600)
}

func mib(bytes int64) string { return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20)) }

func ratio(a, b time.Duration) float64 { return float64(a) / float64(max(b, 1)) }

func commonPrefix(a, b []byte) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

func env(home string) []string {
	return []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "LANG=C.UTF-8"}
}

func lines(s string) int { return strings.Count(s, "\n") }
