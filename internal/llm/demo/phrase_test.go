package demo

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	t.Parallel()
	list := func(p string) []step { return []step{{act: actList, path: p}} }
	read := func(p string) []step { return []step{{act: actRead, path: p}} }
	write := func(text, p string) []step { return []step{{act: actWrite, path: p, text: text}} }
	search := func(text, p string) []step { return []step{{act: actSearch, path: p, text: text}} }
	run := func(cmd string) []step { return []step{{act: actRun, text: cmd}} }
	note := func(text string) []step { return []step{{act: actNote, text: text}} }
	help := []step{{act: actHelp}}
	cases := []struct {
		text string
		want []step
	}{
		{"what can you do?", help},
		{"Who are you?", help},
		{"help", help},
		{"你能做什么？", help},
		{"请帮我", nil},

		{"list files", list(".")},
		{"List the files.", list(".")},
		{"please list files in docs", list("docs")},
		{"list all files in ./src.", list("./src")},
		{"list files in \"my docs\"", list("my docs")},
		{"list files in ..", list("..")},
		{"list files here", list(".")},
		{"list the folder docs", list("docs")},
		{"what files are here?", list(".")},
		{"ls", list(".")},
		{"列出文件", list(".")},
		{"请列出所有文件。", list(".")},
		{"列出当前目录的文件", list(".")},
		{"列出 docs 里的文件", list("docs")},
		{"列出docs目录下的文件", list("docs")},
		{"列出 src/app 目录", list("src/app")},
		{"有哪些文件？", list(".")},
		{"list my worries", nil},

		{"read README.md", read("README.md")},
		{"Read the file notes.txt please", nil},
		{"read the file notes.txt.", read("notes.txt")},
		{"read 'my file.txt'", read("my file.txt")},
		{"show go.mod", read("go.mod")},
		{"cat /etc/hosts", read("/etc/hosts")},
		{"读取 README.md", read("README.md")},
		{"读取README.md。", read("README.md")},
		{"请读一下 a.txt 的内容", read("a.txt")},
		{"打开文件 a.txt", read("a.txt")},
		{"读取“我的 文件.txt”", read("我的 文件.txt")},
		{"read me a story", nil},
		{"read this", nil},
		{"readme.md", nil},

		{`write "hello" to hello.txt`, write("hello", "hello.txt")},
		{`write 'it's fine' to a`, write("it's fine", "a")},
		{"write hello world to out.txt", write("hello world", "out.txt")},
		{"save `x = 1` as x.py", write("x = 1", "x.py")},
		{"把“你好”写入 hello.txt", write("你好", "hello.txt")},
		{"把「你好」写到hello.txt。", write("你好", "hello.txt")},
		{"请将 你好 保存到 a/b.txt", write("你好", "a/b.txt")},
		{"write a letter to Ann", nil},
		{"write a poem", nil},

		{"search for TODO", search("TODO", ".")},
		{"search for TODO in src", search("TODO", "src")},
		{`search for "fast in Go" in docs`, search("fast in Go", "docs")},
		{"find *.go", search("*.go", ".")},
		{"find out who did it", nil},
		{"grep main in cmd/x.go", search("main", "cmd/x.go")},
		{"搜索 TODO", search("TODO", ".")},
		{"搜索“待办 事项”", search("待办 事项", ".")},
		{"在 src 里搜索 TODO", search("TODO", "src")},
		{"在docs目录中查找“安装”。", search("安装", "docs")},

		{"run `date`", run("date")},
		{"Run the command 'ls -l'.", run("ls -l")},
		{"execute \"echo hi\"", run("echo hi")},
		{"run: echo then stop", run("echo then stop")},
		{"运行 `date`", run("date")},
		{"执行命令“ls -l”", run("ls -l")},
		{"运行：echo 你好", run("echo 你好")},
		{"run away", nil},
		{"run rm -rf /", nil},

		{"note: buy milk", note("buy milk")},
		{"remember that the code is 1234", note("the code is 1234")},
		{"Remember: call Ann", note("call Ann")},
		{"记住明天开会", note("明天开会")},
		{"请记住：门禁密码是 1234", note("门禁密码是 1234")},
		{"记下“买牛奶”", note("买牛奶")},
		{"note the difference", nil},
		{"remember", nil},

		{"list files then read a.txt", append(list("."), read("a.txt")...)},
		{"write 'x then y' to a.txt, and then read a.txt", append(write("x then y", "a.txt"), read("a.txt")...)},
		{"列出文件，然后读取 a.txt", append(list("."), read("a.txt")...)},
		{"先列出文件然后运行 `date` 然后记住完成了", append(append(list("."), run("date")...), note("完成了")...)},
		{"remember to eat then call Ann", note("to eat then call Ann")},
		{"hello", nil},
		{"你好", nil},
		{"", nil},
	}
	for _, c := range cases {
		t.Run(c.text, func(t *testing.T) {
			t.Parallel()
			got := parse(c.text)
			if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(step{})); diff != "" {
				t.Errorf("parse(%q) (-want +got):\n%s", c.text, diff)
			}
		})
	}
}

// phrase is one phrasing that docs/reference/demo.md promises.
type phrase struct {
	English, Chinese string
	Does             string // what happens, in English
	Tool             string // the tool it needs, "" for none
}

func phrases() []phrase {
	return []phrase{
		{"what can you do?", "你能做什么？", "explains itself", ""},
		{"list files in docs", "列出 docs 里的文件", "lists a directory; without a name, the workspace", "list_dir"},
		{"read README.md", "读取 README.md", "shows a file", "read_file"},
		{`write "hello" to hello.txt`, "把“你好”写入 hello.txt", "writes a file", "write_file"},
		{"search for TODO in src", "在 src 里搜索 TODO", "searches file contents; with a * in the words, file names", "grep"},
		{"run `date`", "运行 `date`", "runs a command; the quotes are needed", "exec"},
		{"remember that the door code is 1234", "记住门禁密码是 1234", "adds a line to a notes file", "write_file"},
	}
}

func TestPageListsAllPhrases(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/reference/demo.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range phrases() {
		for _, text := range []string{p.English, p.Chinese, p.Does} {
			if !strings.Contains(string(page), text) {
				t.Errorf("docs/reference/demo.md does not mention %q", text)
			}
		}
	}
}

// Every documented phrase must work as documented, in both languages.
func TestPhrases(t *testing.T) {
	t.Parallel()
	for _, p := range phrases() {
		for _, text := range []string{p.English, p.Chinese} {
			steps := parse(text)
			if len(steps) != 1 {
				t.Errorf("parse(%q) = %v, want one step", text, steps)
				continue
			}
			if isHelp := steps[0].act == actHelp; isHelp != (p.Tool == "") {
				t.Errorf("parse(%q) = %v, but its tool is %q", text, steps, p.Tool)
			}
		}
		if isChinese(p.English) || !isChinese(p.Chinese) {
			t.Errorf("phrase %q / %q: languages mixed up", p.English, p.Chinese)
		}
	}
}

// What tools say to a model is not what a person gets to read.
func TestPlainResult(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		act      action
		in, want string
	}{
		{actRead, "1| hello\n2| [x]\n3|\n\n(End of file: 3 lines)", "hello\n[x]"},
		{actRead, "10| a\n\n(Lines 10-10 of 500. Read on with offset=11.)", "a"},
		{actRun, "[section]\n\n[last]\n\nExit code: 0", "[section]\n\n[last]"},
		{actRun, "STDERR:\nbad\n\nExit code: 2\n\n[network: refused example.com]", "bad\n\nExit code: 2"},
		{actRun, "Exit code: 0", ""},
		{actSearch, "hello.txt:1\n> 1| hello\n  2| more", "hello.txt:1\nhello\nmore"},
		{actList, "📄 a\n📁 b\n\n[2 more]", "📄 a\n📁 b"},
	} {
		if got := plainResult(c.act, c.in); got != c.want {
			t.Errorf("plainResult(%q) = %q, want %q", c.in, got, c.want)
		}
	}
	for in, want := range map[string]string{
		"Error: a.md does not exist.": "a.md does not exist.",
		"Error: /etc/x: outside the workspace /w; this is a hard limit, ask the user": "/etc/x: outside the workspace /w.",
		"Error: no. Try list_dir.\n\n[Read the error.]":                               "no.",
	} {
		if got := plainError(in); got != want {
			t.Errorf("plainError(%q) = %q, want %q", in, got, want)
		}
	}
}

// What is proposed is understood, as it looks in a terminal that renders
// Markdown, too.
func TestSuggestions(t *testing.T) {
	t.Parallel()
	for _, s := range suggestions() {
		for _, text := range []string{s.english, s.chinese} {
			if parse(text) == nil || strings.ContainsAny(text, "`*_[") {
				t.Errorf("%q is not understood, or changes when it is rendered", text)
			}
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, p := range phrases() {
		f.Add(p.English)
		f.Add(p.Chinese)
	}
	f.Add("write 'it's' to \x80' then '")
	f.Fuzz(func(t *testing.T, s string) {
		for _, st := range parse(s) {
			if st.act == actRun && st.text == "" {
				t.Errorf("parse(%q): empty command", s)
			}
		}
	})
}
