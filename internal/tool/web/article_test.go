package web

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"codeberg.org/readeck/go-readability/v2/render"
	"golang.org/x/net/html"
)

// What the text of a page without <main> and <article> is taken for.
func TestArticleIsFound(t *testing.T) {
	t.Parallel()
	long := func(word string) string {
		return "<p>" + strings.Repeat("A sentence about the "+word+", which has commas, clauses, and an end. ", 5) + "</p>"
	}
	list := func(word string) string {
		return "<ul>" + strings.Repeat("<li><a href=/x>More words about the "+word+", and others, here</a></li>", 15) + "</ul>"
	}
	chinese := func(word string) string {
		return "<p>" + strings.Repeat("这是一篇关于"+word+"的文章，内容很长，有很多句子。", 8) + "</p>"
	}
	for name, c := range map[string]struct {
		page          string
		want, without []string
	}{
		"paragraphs, not lists of links": {
			"<div><div>" + list("menu") + "</div><div>" + long("topic") + long("topic") + "</div><div>" + list("sale") + "</div></div>",
			[]string{"about the topic"},
			[]string{"about the menu", "about the sale"},
		},
		"not what readers remark, however much": {
			"<div><div class=x>" + strings.Repeat(long("topic"), 3) + "</div><div class=comments>" + strings.Repeat(long("remark"), 2) + "</div>" + list("sale") + "</div>",
			[]string{"about the topic"},
			[]string{"about the sale"},
		},
		"parts of one article beside each other": {
			"<div id=a><div class=part>" + long("start") + long("start") + "</div><div class=part>" + long("end") + long("end") + "</div></div><div>" + list("sale") + "</div>",
			[]string{"about the start", "about the end"},
			[]string{"about the sale"},
		},
		"text without paragraphs": {
			"<div>" + list("menu") + "</div><div>" + strings.Repeat("Words of the topic, in a line, that has no element of its own.<br><br>", 12) + "</div>",
			[]string{"Words of the topic"},
			[]string{"about the menu"},
		},
		"Chinese": {
			"<div>" + list("menu") + "</div><div>" + chinese("天气") + chinese("天气") + "</div>",
			[]string{"关于天气"},
			[]string{"about the menu"},
		},
		"a page without paragraphs stays whole": {
			"<div><div>" + list("first") + "</div><div>" + list("second") + "</div></div>",
			[]string{"about the first", "about the second"},
			nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := extract([]byte("<body>"+c.page), nil, true).text
			for _, w := range c.want {
				if !strings.Contains(got, w) {
					t.Errorf("%q is missing in:\n%s", w, got)
				}
			}
			for _, w := range c.without {
				if strings.Contains(got, w) {
					t.Errorf("%q is part of:\n%s", w, got)
				}
			}
		})
	}
}

// Pages of real sites that a library for the same purpose was made with: what it
// calls the article is in our text, and not much else.
func TestRealPages(t *testing.T) {
	t.Parallel()
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "codeberg.org/readeck/go-readability/v2").Output()
	if err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(dir)), "test-pages", "*", "source.html"))
	if err != nil || len(pages) < 100 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}

	count := func(s string) map[string]int {
		words := map[string]int{}
		for w := range strings.FieldsSeq(s) {
			words[w]++
		}
		return words
	}
	var kept, right, n float64
	for i := 0; i < len(pages); i += 3 {
		source, err := os.ReadFile(pages[i])
		if err != nil {
			t.Fatal(err)
		}
		expected, err := os.ReadFile(filepath.Join(filepath.Dir(pages[i]), "expected.html"))
		if err != nil {
			t.Fatal(err)
		}
		doc, err := html.Parse(strings.NewReader(string(expected)))
		if err != nil {
			t.Fatal(err)
		}
		want := render.InnerText(doc)
		got := extract(toUTF8(source, "text/html"), nil, true).text

		inBoth := 0
		theirs := count(want)
		for w, times := range count(got) {
			inBoth += min(times, theirs[w])
		}
		kept += float64(inBoth) / float64(max(1, len(strings.Fields(want))))
		right += float64(inBoth) / float64(max(1, len(strings.Fields(got))))
		n++
	}
	if kept/n < 0.97 || right/n < 0.86 {
		t.Errorf("of %v pages, %.3f of the words of the article are in our text, and %.3f of our text is article", n, kept/n, right/n)
	}
	t.Logf("%v pages: %.3f kept, %.3f article", n, kept/n, right/n)
}
