package web

import (
	"bytes"
	"flag"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/base/text"
)

var update = flag.Bool("update", false, "rewrite golden files")

// loadPage reads a page of testdata. One whose name holds a charset is stored
// in UTF-8 and encoded here.
func loadPage(tb testing.TB, file string) []byte {
	tb.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		tb.Fatal(err)
	}
	if parts := strings.Split(filepath.Base(file), "."); len(parts) == 3 {
		enc, ok := text.Charset(parts[1])
		if !ok {
			tb.Fatalf("no charset %q", parts[1])
		}
		if data, err = enc.NewEncoder().Bytes(data); err != nil {
			tb.Fatal(err)
		}
	}
	return data
}

func TestExtractPages(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/pages/*.html")
	if err != nil || len(files) < 8 {
		t.Fatalf("pages = %v, %v", files, err)
	}
	at, _ := url.Parse("https://site.example/dir/page?x=1")
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			data := toUTF8(loadPage(t, file), "text/html")
			var got strings.Builder
			for _, plain := range []bool{false, true} {
				p := extract(data, at, plain)
				fmt.Fprintf(&got, "===== plain=%v thin=%v cut=%v links=%d\n%s\n", plain, p.thin, p.cut, len(p.links), p.text)
			}
			golden := strings.TrimSuffix(file, ".html") + ".golden"
			if *update {
				if err := os.WriteFile(golden, []byte(got.String()), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got.String()); diff != "" {
				t.Errorf("extraction changed (-want +got):\n%s", diff)
			}
			for _, bad := range []string{"previous instructions", "SYSTEM:", "secret instructions", "javascript:", "data:text", "!["} {
				if strings.Contains(got.String(), bad) {
					t.Errorf("the text holds %q", bad)
				}
			}
		})
	}
}

// Whatever hides an element from people hides it from the model.
func TestHiddenTextIsDropped(t *testing.T) {
	t.Parallel()
	for _, tag := range []string{
		`<div hidden>`, `<div hidden="until-found">`, `<p aria-hidden="true">`, `<p style="display:none">`, `<p style="DISPLAY : NONE !important">`,
		`<p style="visibility:hidden">`, `<p style="opacity:0">`, `<p style="opacity: 0.0">`, `<p style="font-size:0px">`, `<p style="height:0;overflow:hidden">`,
		`<p style="position:absolute;left:-10000px">`, `<p style="text-indent:-9999px">`, `<p style="clip:rect(0,0,0,0)">`, `<p style="clip-path:inset(50%)">`,
		`<p style="transform: scale(0)">`, `<p style="color:transparent">`, `<span class="sr-only">`, `<span class="x visually-hidden">`, `<div class="hidden">`,
		`<template>`, `<noscript>`, `<textarea>`, `<script>`, `<style>`, `<iframe>`, `<svg><text>`, `<select><option>`, `<object>`, `<video>`, `<dialog>`, `<canvas>`, `<!--`,
	} {
		end := "</" + strings.FieldsFunc(tag[1:], func(r rune) bool { return r == ' ' || r == '>' })[0] + ">"
		if tag == "<!--" {
			end = "-->"
		}
		const long = "Visible words of this page, long enough to be taken for the content of it, with commas, and more. "
		doc := "<body><p>" + strings.Repeat(long, 5) + tag + "CANARY" + end + "<p>" + long
		if got := extract([]byte(doc), nil, false).text; strings.Contains(got, "CANARY") || !strings.Contains(got, "Visible words") {
			t.Errorf("%s: %q", tag, got)
		}
	}
	for _, tag := range []string{`<p style="opacity:0.9">`, `<p style="font-size:10px">`, `<p style="left:-10px">`, `<div class="hidden lg:block">`, `<div class="d-none d-md-block">`, `<dialog open>`} {
		if got := extract([]byte("<body>"+tag+"CANARY is visible here"), nil, false).text; !strings.Contains(got, "CANARY") {
			t.Errorf("%s: visible text is missing: %q", tag, got)
		}
	}
}

// The limits of a page do not uncover hidden text, and attributes that nobody
// sees carry none.
func TestLimitsKeepTextHidden(t *testing.T) {
	t.Parallel()
	const long = "Visible words of this page, long enough to be taken for the content of it, with commas, and more. "
	for name, doc := range map[string]string{
		"below the deepest element": strings.Repeat("<div>", 1000) + long + "<div hidden>CANARY</div><section class=sr-only><div>CANARY</div></section>" + long,
		"a script there":            strings.Repeat("<div>", 1000) + long + "<svg><path/><path/><text>CANARY</text></svg><template><p>CANARY</template>" + long,
		"a huge tag":                "<p>" + long + `<div title="` + strings.Repeat("x", 20_000) + `" style="display:none">CANARY</div><p>` + long,
		"the title of a link":       "<p>" + long + `<a href="/x" title="CANARY">link</a> <img src=x alt="photo" title="CANARY"> ` + long,
		"a shape in between":        "<p>" + long + strings.Repeat("<svg><path/><g><use/></g></svg>", 200) + "<p>" + long + "<p hidden>CANARY",
		"styles that never end":     "<p>" + long + "<b style='opacity:0'>CANARY</b><p>" + long,
	} {
		for _, plain := range []bool{false, true} {
			got := extract([]byte(doc), nil, plain).text
			if strings.Contains(got, "CANARY") || strings.Count(got, "Visible words") != 2 {
				t.Errorf("%s: %q", name, got)
			}
		}
	}
}

func TestCharsets(t *testing.T) {
	t.Parallel()
	const words = "<p>größer — «Да»"
	for _, tt := range []struct{ name, header, data, want string }{
		{"utf-8 without a label", "text/html", words, words},
		{"utf-8 with a mark", "text/html; charset=iso-8859-1", "\xef\xbb\xbf" + words, words},
		{"latin-1 header", "text/html; charset=ISO-8859-1", "gr\xf6\xdfer", "größer"},
		{"no label, not utf-8", "text/plain", "gr\xf6\xdfer \x93x\x94", "größer “x”"},
		{"header beats meta", "text/html; charset=koi8-r", `<meta charset="utf-8">` + "\xe4\xc1", `<meta charset="utf-8">` + "Да"},
		{"meta http-equiv", "text/html", `<meta http-equiv=x content="text/html; charset=windows-1251">` + "\xc4\xe0", `<meta http-equiv=x content="text/html; charset=windows-1251">` + "Да"},
		{"xml declaration", "", `<?xml version="1.0" encoding="euc-jp"?>` + "\xc6\xfc", `<?xml version="1.0" encoding="euc-jp"?>` + "日"},
		{"utf-16 with a mark", "", "\xff\xfeD\x04", "ф"[:0] + "\u0444"},
		{"unknown label", "text/html; charset=klingon", "gr\xc3\xb6\xc3\x9fer", "größer"},
		{"utf-8 with damage", "text/html; charset=utf-8", "gr\xc3\xb6\xff\xc3\x9fer", "grö\uFFFDßer"},
		{"big5", "text/html; charset=big5", "\xa4\xa4\xa4\xe5", "中文"},
		{"euc-kr", "text/html; charset=euc-kr", "\xc7\xd1\xb1\xdb", "한글"},
	} {
		if got := string(toUTF8([]byte(tt.data), tt.header)); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// hostilePages are shapes that make careless parsers slow, deep or large.
func hostilePages(size int) map[string][]byte {
	rep := func(s string) []byte { return []byte(strings.Repeat(s, size/len(s)+1)) }
	all := map[string][]byte{
		"deep":          rep("<div>"),
		"deep inline":   rep("<b><i>"),
		"deep quotes":   append(rep("<blockquote>"), "text"...),
		"deep lists":    append(rep("<ul><li>"), "text"...),
		"deep tables":   rep("<table><tr><td>x"),
		"many ends":     rep("</b></div></p>"),
		"ends in deep":  append(bytes.Repeat([]byte("<section>"), 300), rep("</p></b></span>")...),
		"open p":        rep("<p>x"),
		"open a":        rep("<a href=/x>y"),
		"open li":       rep("<li>x"),
		"one list":      rep("<li>item</li>"),
		"one table":     append([]byte("<table>"), rep("<tr><td>x<td>y")...),
		"wide row":      append([]byte("<table><tr><td>a<td>b<tr>"), rep("<td>x")...),
		"attributes":    append(append([]byte("<p "), rep("a=1 bc=2 ")...), ">x"...),
		"one attribute": append(append([]byte(`<p class="`), rep("ad nav ")...), `">x`...),
		"styles":        rep(`<p style="a:b;c:d;e:f">x`),
		"one line":      rep("x"),
		"one word list": rep("x "),
		"entities":      rep("&lt;&amp;&#x41;"),
		"open tag":      rep("<a "),
		"open comment":  append([]byte("<!--"), rep("-")...),
		"ticks":         append(append([]byte("<pre>"), rep("`")...), "</pre>"...),
		"code":          rep("<code>`</code>"),
		"pictures":      rep("<img alt='some words'>"),
		"articles":      rep("<article><p>" + strings.Repeat("word, ", 40) + "</p></article>"),
		"select":        rep("<select><p>x"),
		"zeros":         make([]byte, size),
		"brackets":      rep("!["),
		"breaks":        append([]byte("<a href=/x>"), rep("<br>")...),
		"styles in all": append(append([]byte("<p>"), bytes.Repeat([]byte("<b class=a><i class=b><u class=c>"), 40)...), rep("<p>x")...),
		"spans":         append([]byte("<table><tr><td colspan=1000000000>a<td>b"), rep("<tr><td rowspan=99999>a<td>b")...),
		"menus":         append(bytes.Repeat([]byte("<div class=menu>"), 140), rep("words, words ")...),
	}
	all["nested then text"] = append(bytes.Repeat([]byte("<div>"), 10_000), rep("words, words ")...)
	return all
}

// Time is compared between two sizes, so that the speed of the machine does
// not matter: four times the input may take four times as long, with room for
// noise, but not sixteen. A machine that slows down between the two sizes gets
// more tries; work that grows too fast fails all of them.
func TestExtractIsLinear(t *testing.T) {
	if testing.Short() || raceOn {
		t.Skip("measures time, which the race detector stretches")
	}
	const size = 64 << 10
	small, large := hostilePages(size), hostilePages(4*size)
	for name := range small {
		took := func(data []byte) time.Duration {
			var p page
			took := cost(func() { p = extract(data, nil, false) })
			if len(p.text) > 2*maxRendered+4096 || !utf8.ValidString(p.text) {
				t.Errorf("%s: %d bytes of text", name, len(p.text))
			}
			return took
		}
		a, b := time.Hour, time.Hour
		for range 20 {
			a, b = min(a, took(small[name])), min(b, took(large[name]))
			if b <= 10*a || b <= 100*time.Millisecond {
				break
			}
		}
		if b > 10*a && b > 100*time.Millisecond {
			t.Errorf("%s: %v for 64 KB, %v for 256 KB", name, a, b)
		}
	}
}

// The limit holds without inlining, which is how the program and its tests are
// built; the worst page takes 330 MiB.
func TestExtractIsBounded(t *testing.T) {
	if raceOn {
		t.Skip("measures memory, of which the race detector takes a lot")
	}
	for name, data := range hostilePages(512 << 10) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		extract(data, nil, false)
		runtime.ReadMemStats(&after)
		if got := (after.TotalAlloc - before.TotalAlloc) >> 20; got > 450 {
			t.Errorf("%s: %d MiB in all", name, got)
		}
	}
	if got := extract(append(bytes.Repeat([]byte("<div>"), 10_000), "<script>no</script><p hidden>no</p>deep words"...), nil, false).text; got != "deep words" {
		t.Errorf("text below 10,000 elements: %q", got)
	}
}

// Indentation must not turn a small file into a large text.
func TestPrettyJSONIsBounded(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", 60) + strings.Repeat("1,", 500_000) + "1" + strings.Repeat("]", 60)
	for name, in := range map[string]string{"wide": deep, "deep": strings.Repeat("[", 9000) + strings.Repeat("]", 9000), "flat": strings.Repeat(" ", 1<<20) + "1"} {
		if got := prettyJSON([]byte(in), 100_000); len(got) > 100_100 {
			t.Errorf("%s: %d bytes", name, len(got))
		}
	}
}

func BenchmarkExtract(b *testing.B) {
	article := loadPage(b, "testdata/pages/article.html")
	docs := loadPage(b, "testdata/pages/docs.html")
	for _, size := range []int{100 << 10, 1 << 20, 4 << 20} {
		var page []byte
		for len(page) < size {
			page = append(append(page, article...), docs...)
		}
		page = page[:size]
		b.Run(fmt.Sprintf("%dKB", size>>10), func(b *testing.B) {
			b.SetBytes(int64(size))
			b.ReportAllocs()
			used := cost(func() {
				for b.Loop() {
					extract(page, nil, false)
				}
			})
			b.ReportMetric(float64(used.Nanoseconds())/float64(b.N)/float64(size), "cpu-ns/byte")
			b.ReportMetric(float64(used.Milliseconds())/float64(b.N), "cpu-ms/op")
		})
	}
}

func FuzzExtract(f *testing.F) {
	files, _ := filepath.Glob("testdata/pages/*.html")
	for _, file := range files {
		f.Add(loadPage(f, file))
	}
	for _, page := range hostilePages(512) {
		f.Add(page)
	}
	at, _ := url.Parse("https://site.example/")
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, plain := range []bool{false, true} {
			p := extract(toUTF8(data, "text/html"), at, plain)
			if !utf8.ValidString(p.text) || len(p.text) > 64*len(data)+4096 {
				t.Errorf("%d bytes of text from %d, valid %v", len(p.text), len(data), utf8.ValidString(p.text))
			}
			if strings.Contains(p.text, "](javascript:") || strings.Contains(p.text, "](data:") {
				t.Errorf("a link that is no address: %q", p.text)
			}
			if text.Clean(p.text) != p.text {
				t.Errorf("characters nobody sees: %q", p.text)
			}
		}
	})
}

func FuzzParseDuck(f *testing.F) {
	f.Add([]byte(`<div class="result"><a class="result__a" href="//duckduckgo.com/l/?uddg=https%3A%2F%2Fa.example%2F">T</a><a class="result__snippet">S</a></div>`))
	f.Add([]byte(`<tr class="result-sponsored"><td><a class='result-link' href="https://duckduckgo.com/y.js?x">A</a><tr><td><a class='result-link' href="https://b.example/">B</a><td class='result-snippet'>S`))
	f.Add([]byte(`<div class="anomaly-modal__mask">`))
	f.Fuzz(func(t *testing.T, data []byte) {
		hits, limited, known := parseDuck(data)
		if len(hits) > 0 && (limited || !known) || len(hits) > len(data) {
			t.Errorf("%d results, limited %v, known %v", len(hits), limited, known)
		}
		for _, h := range hits {
			if u := webLink(h.url); u != "" && !strings.HasPrefix(u, "http") {
				t.Errorf("link %q", u)
			}
		}
	})
}
