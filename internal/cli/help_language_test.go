package cli

import (
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/cli/tui"
)

// visit calls f for a command and all below it.
func visit(cmd *cobra.Command, f func(*cobra.Command)) {
	f(cmd)
	for _, sub := range cmd.Commands() {
		visit(sub, f)
	}
}

// TestChineseHelp walks the whole command tree of a Chinese user: every short and long
// description and every flag is in Chinese, and no row is wider than a terminal.
func TestChineseHelp(t *testing.T) {
	t.Parallel()
	c := newProgram(Stdio{Env: []string{"LC_ALL=zh_CN.UTF-8"}}, "", "")
	han := regexp.MustCompile(`\p{Han}`)
	commands := 0
	root := c.root(nil)
	translateHelp(root, languageOf(root))
	visit(root, func(cmd *cobra.Command) {
		if strings.HasPrefix(cmd.CommandPath(), "nanobot completion ") {
			return // the texts of cobra for each shell
		}
		commands++
		for _, text := range []string{cmd.Short, cmd.Long} {
			if text != "" && !han.MatchString(text) {
				t.Errorf("%s: not in Chinese: %q", cmd.CommandPath(), text)
			}
		}
		for line := range strings.SplitSeq(cmd.Long, "\n") {
			if tui.Width(line) > helpWidth {
				t.Errorf("%s: the row is too wide: %q", cmd.CommandPath(), line)
			}
		}
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Usage != "" && !han.MatchString(f.Usage) {
				t.Errorf("%s --%s: not in Chinese: %q", cmd.CommandPath(), f.Name, f.Usage)
			}
		})
	})
	if commands < 100 {
		t.Errorf("only %d commands were visited", commands)
	}
}

// TestEnglishHelp: nothing of it changes for other languages, and flags are listed as
// pflag lists them.
func TestEnglishHelp(t *testing.T) {
	t.Parallel()
	english := newProgram(Stdio{}, "", "").root(nil)
	german := newProgram(Stdio{Env: []string{"LANG=de_DE.UTF-8"}}, "", "").root(nil)
	var want []string
	visit(english, func(cmd *cobra.Command) {
		want = append(want, cmd.Short+cmd.Long+cmd.Example)
		if !cmd.LocalFlags().HasAvailableFlags() {
			return
		}
		var b strings.Builder
		writeFlags(&b, "\nFlags:\n", cmd, cmd.LocalFlags())
		if pflags := "\nFlags:\n" + cmd.LocalFlags().FlagUsages(); b.String() != pflags {
			t.Errorf("%s: got\n%swant\n%s", cmd.CommandPath(), b.String(), pflags)
		}
	})
	i := 0
	visit(german, func(cmd *cobra.Command) {
		if got := cmd.Short + cmd.Long + cmd.Example; got != want[i] {
			t.Errorf("%s: got %q, want %q", cmd.CommandPath(), got, want[i])
		}
		i++
	})
}

// TestChineseFlags: the columns of flags with Chinese names begin in the same column.
func TestChineseFlags(t *testing.T) {
	t.Parallel()
	root := newProgram(Stdio{Env: []string{"LC_ALL=zh_CN.UTF-8"}}, "", "").root([]string{"cron"})
	translateHelp(root, languageOf(root))
	var b strings.Builder
	writeFlags(&b, "\nFlags:\n", root, root.LocalFlags())
	column := -1
	for line := range strings.SplitSeq(strings.TrimSpace(strings.TrimPrefix(b.String(), "\nFlags:\n")), "\n") {
		_, about, ok := strings.Cut(strings.TrimLeft(line, " "), "   ")
		at := tui.Width(strings.TrimSuffix(line, strings.TrimLeft(about, " ")))
		if line = strings.TrimRight(line, " "); strings.HasPrefix(line, "-c") {
			at += 2 // trimmed above
		}
		if !ok || column >= 0 && at != column {
			t.Errorf("%q begins in column %d, others in %d", line, at, column)
		}
		column = at
	}
}

// TestChineseErrors: what a person reads about an error is in Chinese, with its names.
func TestChineseErrors(t *testing.T) {
	t.Parallel()
	for english, want := range map[string]string{
		"unknown flag: --bogus\nSee: nanobot agent --help":                                                                                     "未知参数：--bogus\n参见：nanobot agent --help",
		"unknown flag: --sesion; did you mean --session?\nSee: nanobot agent --help":                                                           "未知参数：--sesion；您是指 --session 吗？\n参见：nanobot agent --help",
		`unknown command "statsu" for nanobot; did you mean nanobot status?` + "\nSee: nanobot --help":                                         `nanobot 没有命令 "statsu"；您是指 nanobot status 吗？` + "\n参见：nanobot --help",
		`invalid argument "x" for "-p, --port" flag: a port is a number from 0 to 65535; 0 picks a free one` + "\nSee: nanobot gateway --help": `参数 "-p, --port" 的值 "x" 无效：端口是 0 到 65535 之间的数字；0 表示选择空闲端口` + "\n参见：nanobot gateway --help",
		"read standard input: permission denied":                                                                                               "读取标准输入：权限不足",
		"something that nobody has translated":                                                                                                 "something that nobody has translated",
	} {
		if got := phrase.Recognize(phrase.Chinese, english); got != want {
			t.Errorf("%q: got %q, want %q", english, got, want)
		}
		if got := phrase.Recognize("", english); got != english {
			t.Errorf("%q became %q in English", english, got)
		}
	}
}
