package files_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/tool"
	"github.com/nanobot-go/nanobot/internal/tool/files"
)

// benchFiles is the size of the benchmark's tree, spread over 1,000 directories.
const benchFiles = 100_000

// BenchmarkGrep searches a tree of 100,000 files and, when rg is installed,
// compares with it: "x-rg" is our wall time over its. Both search hidden files
// and leave out the same names; the median of several runs is taken in turns.
func BenchmarkGrep(b *testing.B) {
	dir := benchTree(b, benchFiles)
	jail, err := diskio.OpenJail(diskio.JailOptions{Workspace: dir, Restrict: true})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = jail.Close() }()
	set, err := tool.NewSet(files.Tools(files.Options{Jail: jail})...)
	if err != nil {
		b.Fatal(err)
	}
	grep, _ := set.Get("grep")
	for _, c := range []struct {
		name, args string
		rg         []string
	}{
		{"literal", `{"pattern":"needle_in_haystack"}`, []string{"-l", "needle_in_haystack"}},
		{"regexp", `{"pattern":"func \\w+Handler\\(ctx"}`, []string{"-l", `func \w+Handler\(ctx`}},
		{"nocase", `{"pattern":"needle_in_haystack","case_insensitive":true}`, []string{"-l", "-i", "needle_in_haystack"}},
		{"noliteral", `{"pattern":"[0-9]{7}z"}`, []string{"-l", "[0-9]{7}z"}},
		{"count", `{"pattern":"return","output_mode":"count"}`, []string{"-c", "return"}},
	} {
		b.Run(c.name, func(b *testing.B) {
			_, err := exec.LookPath("rg")
			withRG := err == nil
			var ours, theirs []time.Duration
			for b.Loop() {
				start := time.Now()
				res, err := grep.Run(b.Context(), tool.Call{Input: json.RawMessage(c.args)})
				ours = append(ours, time.Since(start))
				if err != nil || res.IsError {
					b.Fatalf("grep: %v %s", err, res.Content.Text)
				}
				if withRG {
					start := time.Now()
					runRG(b, dir, c.rg)
					theirs = append(theirs, time.Since(start))
				}
			}
			b.ReportMetric(float64(median(ours).Microseconds())/1000, "ms-ours")
			if withRG {
				b.ReportMetric(float64(median(theirs).Microseconds())/1000, "ms-rg")
				b.ReportMetric(float64(median(ours))/float64(median(theirs)), "x-rg")
			}
		})
	}
}

func median(d []time.Duration) time.Duration {
	d = append([]time.Duration{}, d...)
	for i := range d {
		for j := i; j > 0 && d[j] < d[j-1]; j-- {
			d[j], d[j-1] = d[j-1], d[j]
		}
	}
	return d[len(d)/2]
}

func runRG(b *testing.B, dir string, args []string) {
	b.Helper()
	cmd := exec.CommandContext(b.Context(), "rg", append([]string{
		"--hidden", "--no-config", "--no-require-git", "--no-ignore-global",
		"-g", "!.git", "-g", "!node_modules", "-g", "!__pycache__", "-g", "!dist", "-g", "!build",
	}, args...)...)
	cmd.Dir = dir
	var out bytes.Buffer
	cmd.Stdout = &out
	if err := cmd.Run(); err != nil && cmd.ProcessState.ExitCode() > 1 {
		b.Fatal(err)
	}
}

// benchTree makes a tree of source-like files of about 3 KB with a few ignore
// files, some binaries and some directories to be ignored.
func benchTree(b *testing.B, n int) string {
	b.Helper()
	dir := b.TempDir()
	const perDir = 100
	var wg sync.WaitGroup
	for w := range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(w), 7))
			for d := w; d < n/perDir; d += runtime.GOMAXPROCS(0) {
				sub := filepath.Join(dir, fmt.Sprintf("mod%02d/pkg%d/sub%d", d%32, d%7, d))
				if d%50 == 0 {
					sub = filepath.Join(dir, fmt.Sprintf("mod%02d/node_modules/p%d", d%32, d))
				}
				if err := os.MkdirAll(sub, 0o755); err != nil {
					panic(err)
				}
				if d%20 == 0 {
					_ = os.WriteFile(filepath.Join(sub, ".gitignore"), []byte("*.log\n/tmp/\n!keep.log\n"), 0o644)
				}
				for i := range perDir {
					name := fmt.Sprintf("file%d.%s", i, []string{"go", "py", "ts", "md", "log"}[i%5])
					_ = os.WriteFile(filepath.Join(sub, name), benchText(rnd, d*perDir+i), 0o644)
				}
			}
		})
	}
	wg.Wait()
	return dir
}

func benchText(rnd *rand.Rand, id int) []byte {
	if id%200 == 7 {
		return append([]byte("\x7fELF\x00\x00"), make([]byte, 2000)...)
	}
	words := strings.Fields("func return if err nil value ctx string int for range type struct package import the of and request response handler buffer 1234567 0x7f")
	var b bytes.Buffer
	for range 20 + rnd.IntN(80) {
		for range 3 + rnd.IntN(9) {
			b.WriteString(words[rnd.IntN(len(words))])
			b.WriteByte(' ')
		}
		b.WriteByte('\n')
	}
	if id%997 == 0 {
		b.WriteString("// needle_in_haystack 7654321z\nfunc fooHandler(ctx context.Context)\n")
	}
	return b.Bytes()
}
