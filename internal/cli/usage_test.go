package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const usageLog = `{"time":"2026-01-05T10:00:00Z","turn":"a","session":"cli:direct","source":"user","provider":"anthropic","model":"claude-sonnet-4-5","in":120000,"out":3000,"cached":90000,"billing":"priced","cost":0.162,"currency":"USD","usd":0.162,"ms":9000,"outcome":"ok"}
{"time":"2026-01-05T11:00:00Z","turn":"b","session":"telegram:42","source":"user","provider":"custom","model":"mystery-9b","in":4000,"out":500,"billing":"unknown","ms":900,"outcome":"ok","estimated":true}
{"time":"2026-01-06T23:30:00Z","turn":"c","session":"cron:news","source":"cron","provider":"anthropic","model":"claude-sonnet-4-5","in":20000,"out":1000,"billing":"priced","cost":0.075,"currency":"USD","usd":0.075,"ms":900,"outcome":"ok"}
{"time":"2026-01-07T00:30:00Z","source":"user","provider":"anthropic","model":"claude-sonnet-4-5","in":0,"out":0,"billing":"priced","ms":9,"outcome":"rate_limit"}
{"time":"2026-01-07T12:00:00Z","session":"cli:direct","source":"user","provider":"ollama","model":"qwen3:8b","in":8000,"out":800,"billing":"free","ms":900,"outcome":"ok"}
{"time":"2026-01-08T12:00:00Z","session":"cli:direct","source":"user","provider":"openai_codex","model":"gpt-5.1-codex","in":8000,"out":800,"cached":4000,"billing":"subscription","ms":900,"outcome":"ok"}
{"time":"2026-01-08T12:00:00Z","session":"cli:di`

// usageOf runs nanobot usage in a home with a log of January 2026.
func usageOf(t *testing.T, log string, args ...string) (string, error) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(`{"agents":{"defaults":{"timezone":"UTC","timezoneMode":"manual"}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if log != "" {
		if err := os.Mkdir(filepath.Join(dir, "usage"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "usage", "2026-01.jsonl"), []byte(log), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out := newPrinted(t)
	c := newProgram(Stdio{Now: time.Now, Out: out.File, Err: out.File, Env: []string{"NANOBOT_HOME=" + dir, "HOME=" + dir}}, "", "")
	cmd := build(t, c, "usage")
	cmd.SetOut(out)
	cmd.SetErr(out)
	cmd.SetArgs(args)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err := cmd.ExecuteContext(t.Context())
	return filepath.ToSlash(strings.ReplaceAll(out.String(), dir, "HOME")), err
}

func TestUsage(t *testing.T) {
	t.Parallel()
	const foot = `
Today       $0 of $5.00 (0 %), 0 calls, 0 tokens
This month  $0, 0 calls, 0 tokens
`
	const notes = `
Price unknown: custom/mystery-9b. Calls without a price are missing in the cost; prices can be added in HOME/prices.json.
Some token counts are estimates, because the provider gave none.
`
	for _, c := range []struct{ name, log, args, want string }{
		{"day", usageLog, "--since 2026-01-01", `
DAY         CALLS      IN  CACHED   OUT                              COST
2026-01-05      2  124.0k    73 %  3.5k                 $0.1620 + unknown  ####################
2026-01-06      1   20.0k     0 %  1.0k                           $0.0750  #########
2026-01-07      2    8.0k     0 %   800                              free
2026-01-08      1    8.0k    50 %   800                      subscription
TOTAL           6  160.0k    59 %  6.1k  $0.2370 + unknown + subscription
` + foot + notes},
		{"model", usageLog, "--since all --by model", `
MODEL              CALLS      IN  CACHED   OUT                              COST
claude-sonnet-4-5      3  140.0k    64 %  4.0k                           $0.2370  ####################
gpt-5.1-codex          1    8.0k    50 %   800                      subscription
qwen3:8b               1    8.0k     0 %   800                              free
mystery-9b             1    4.0k     0 %   500                           unknown
TOTAL                  6  160.0k    59 %  6.1k  $0.2370 + unknown + subscription
` + foot + notes},
		{"source, not the first day", usageLog, "--since 2026-01-06 --by source", `
SOURCE  CALLS     IN  CACHED   OUT                    COST
cron        1  20.0k     0 %  1.0k                 $0.0750  ####################
user        3  16.0k    25 %  1.6k            subscription
TOTAL       4  36.0k    11 %  2.6k  $0.0750 + subscription
` + foot},
		{"nothing at all", "", "--since all", `
No model was called. Every call is counted in HOME/usage as it is made.
`},
		{"nothing since then", usageLog, "--since 2026-02-01", `
No model was called since 2026-02-01. Every call is counted in HOME/usage as it is made.
`},
		{"no cost known, and a name that wants to clear the screen", `{"time":"2026-01-05T10:00:00Z","source":"user","provider":"p","model":"x\u001b[2J","in":10,"out":20,"billing":"unknown","outcome":"ok"}
{"time":"2026-01-05T10:00:00Z","source":"user","provider":"p","model":"y","in":1,"out":2,"billing":"unknown","outcome":"ok"}
`, "--since all --by model", `
MODEL  CALLS  IN  CACHED  OUT     COST
x [2J      1  10     0 %   20  unknown  ####################
y          1   1     0 %    2  unknown  ##
TOTAL      2  11     0 %   22  unknown
` + foot + `
Price unknown: p/x [2J, p/y. Calls without a price are missing in the cost; prices can be added in HOME/prices.json.
`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := usageOf(t, c.log, strings.Fields(c.args)...)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, "\n"+got); diff != "" {
				t.Errorf("output (-want +got):\n%s", diff)
			}
		})
	}
}

func TestUsageJSON(t *testing.T) {
	t.Parallel()
	got, err := usageOf(t, usageLog, "--json", "--since", "all", "--by", "session")
	if err != nil {
		t.Fatal(err)
	}
	var v struct {
		By     string
		Groups []struct {
			Name  string
			Calls int
		}
		Total struct {
			Calls, Failed, UnknownPrice, Subscription, Free int
			USD                                             float64
		}
		UnpricedModels []string
		Today          struct{ Calls int }
	}
	if err := json.Unmarshal([]byte(got), &v); err != nil {
		t.Fatalf("%v in %s", err, got)
	}
	if strings.Contains(got, "#") {
		t.Error("JSON has a chart")
	}
	if v.By != "session" || len(v.Groups) != 4 || v.Groups[0].Name != "cli:direct" || v.Total.Calls != 6 || v.Total.Failed != 1 ||
		v.Total.UnknownPrice != 1 || v.Total.Subscription != 1 || v.Total.Free != 1 || v.Total.USD != 0.237 ||
		!cmp.Equal(v.UnpricedModels, []string{"custom/mystery-9b"}) || v.Today.Calls != 0 {
		t.Errorf("JSON = %+v", v)
	}
}

func TestUsageErrors(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"--by modl": "did you mean model?", "--by x": "want day, month, model", "--since 3x": "a span of time such as 30d",
		"--since -3d": "a span of time", "--since yesterday": "a date such as", "extra": "takes no arguments",
	} {
		_, err := usageOf(t, usageLog, strings.Fields(args)...)
		if err == nil || !strings.Contains(err.Error(), want) || exitCode(err) != 2 {
			t.Errorf("%s: error = %v (exit %d), want %q and 2", args, err, exitCode(err), want)
		}
	}
}

// A recurring job shows what it will cost per month, judged by its own runs.
func TestUsagePreview(t *testing.T) {
	t.Parallel()
	got, err := usageOf(t, usageLog, "--job", "cron:news", "--times", "60", "--since", "all")
	if err != nil || !strings.Contains(got, "$4.50 a month") { // 60 runs of 0.075
		t.Errorf("preview = %q, %v", got, err)
	}
	for _, args := range [][]string{{"--job", "nobody", "--since", "all"}, {"--job", "cron:news", "--times", "0"}} {
		if got, err := usageOf(t, usageLog, args...); err == nil {
			t.Errorf("%v: %q, want an error", args, got)
		}
	}
}
