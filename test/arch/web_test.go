package arch_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	webDir  = "web"
	webDist = "internal/web/pages/dist"
)

// TestWebVendor: the libraries in web/vendor are the published files, and those
// that the type check uses have the same version.
func TestWebVendor(t *testing.T) {
	var all []struct {
		Name, Version, Licence, Source, Folder string
		Files                                  map[string]string
	}
	decodeFile(t, filepath.Join(webDir, "vendor", "vendor.json"), &all)
	var packages struct{ DevDependencies map[string]string }
	decodeFile(t, filepath.Join(webDir, "package.json"), &packages)
	known := map[string]bool{"vendor.json": true}
	for _, l := range all {
		if l.Licence == "" || l.Version == "" || l.Source != "npm:"+l.Name+"@"+l.Version || l.Files["LICENSE"] == "" {
			t.Errorf("%s: vendor.json must name licence, version and source, and the folder must hold the licence", l.Name)
		}
		if v, ok := packages.DevDependencies[l.Name]; ok && v != l.Version {
			t.Errorf("%s is %s in web/vendor and %s in web/package.json", l.Name, l.Version, v)
		}
		for name, sum := range l.Files {
			path := filepath.Join(l.Folder, name)
			known[path] = true
			if got := sha256.Sum256(readFile(t, filepath.Join(webDir, "vendor", path))); hex.EncodeToString(got[:]) != sum {
				t.Errorf("web/vendor/%s is not the published file", path)
			}
		}
	}
	for _, path := range filesBelow(t, filepath.Join(webDir, "vendor")) {
		if rel, _ := filepath.Rel(filepath.Join(webDir, "vendor"), path); !known[rel] {
			t.Errorf("%s is not in vendor.json", path)
		}
	}
}

// TestWebManifest: the committed pages were built from the sources as they are.
// make web-check also compares the bytes.
func TestWebManifest(t *testing.T) {
	h := sha256.New()
	for _, dir := range []string{"build", "src", sentencesFile, "vendor"} {
		for _, path := range filesBelow(t, filepath.Join(webDir, dir)) {
			data := readFile(t, path)
			rel, err := filepath.Rel(webDir, path)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(h, "%s %d\n", filepath.ToSlash(rel), len(data))
			h.Write(data)
		}
	}
	var manifest struct {
		Sources string
		Files   map[string]int
	}
	decodeFile(t, filepath.Join(webDist, "manifest.json"), &manifest)
	if got := hex.EncodeToString(h.Sum(nil)); got != manifest.Sources {
		t.Errorf("the sources of the pages have changed: run make web")
	}
	for _, path := range filesBelow(t, webDist) {
		name, data, _ := distFile(t, path)
		if size, ok := manifest.Files[name]; name != "manifest.json" && (!ok || size != len(data)) {
			t.Errorf("%s is not what the manifest says: run make web", path)
		}
	}
}

// distFile is a file of the committed pages, and how many bytes of it are stored.
func distFile(t *testing.T, path string) (name string, data []byte, stored int) {
	t.Helper()
	data = readFile(t, path)
	name, compressed := strings.CutSuffix(filepath.Base(path), ".gz")
	if !compressed {
		return name, data, len(data)
	}
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	plain, err := io.ReadAll(z)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return name, plain, len(data)
}

// TestWebSizes: what the pages weigh, compressed.
func TestWebSizes(t *testing.T) {
	const first, styles, everything, formulas, embedded = 100_000, 16_000, 400_000, 70_000, 1_000_000
	// What the document loads before a message can be sent: its own script and
	// styles, and what they import.
	loaded := map[string]bool{}
	_, document, _ := distFile(t, filepath.Join(webDist, "index.html.gz"))
	for _, m := range regexp.MustCompile(`assets/BUILD/([\w.]+\.(?:js|css))`).FindAllStringSubmatch(string(document), -1) {
		loaded[m[1]] = true
	}
	var sum struct{ first, styles, all, formulas, raw int }
	for _, path := range filesBelow(t, webDist) {
		name, data, stored := distFile(t, path)
		sum.raw += len(data)
		ext := filepath.Ext(name)
		if ext != ".js" && ext != ".css" {
			continue
		}
		if name == "math.js" { // the library of formulas, loaded with the first one
			sum.formulas += stored
		} else {
			sum.all += stored
		}
		if loaded[name] {
			sum.first += stored
		}
		if ext == ".css" {
			sum.styles += stored
		}
	}
	t.Logf("before the first message %d, styles %d, all %d and formulas %d, embedded %d bytes", sum.first, sum.styles, sum.all, sum.formulas, sum.raw)
	if !loaded["main.js"] || !loaded["main.css"] {
		t.Errorf("index.html loads %v, without main.js or main.css", slices.Sorted(maps.Keys(loaded)))
	}
	for _, c := range []struct {
		what      string
		got, most int
	}{
		{"what is loaded before the first message", sum.first, first},
		{"the styles", sum.styles, styles},
		{"all scripts and styles", sum.all, everything},
		{"all files, as the program embeds them", sum.raw, embedded},
	} {
		if c.got > c.most {
			t.Errorf("%s: %d bytes, %d too many; make something smaller, or raise the limit in TestWebSizes in a commit that says why", c.what, c.got, c.got-c.most)
		}
	}
	if loaded["math.js"] || sum.formulas == 0 || sum.formulas > formulas {
		t.Errorf("formulas are %d bytes of script, at most %d, and loaded only with the first one", sum.formulas, formulas)
	}
}

// TestWebPages: web/src/state/route.ts and web/src/pages/table.ts have the same pages. The
// type check sees that, too, but it needs Node, and make web does not: a page without
// its name in route.ts is built, and its address leads nowhere.
func TestWebPages(t *testing.T) {
	list := func(file, part, name string) (names []string) {
		data := readFile(t, filepath.Join(webDir, filepath.FromSlash(file)))
		found := regexp.MustCompile(part).FindSubmatch(data)
		if found == nil {
			t.Fatalf("%s: nothing matches %s; correct the pattern in TestWebPages", file, part)
		}
		for _, m := range regexp.MustCompile(name).FindAllSubmatch(found[1], -1) {
			names = append(names, string(m[1]))
		}
		return names
	}
	names := list("src/state/route.ts", `(?s)export const names = \[(.*?)\] as const`, `"([\w-]+)"`)
	entries := list("src/pages/table.ts", `(?s)export const table: [^{]*\{\n(.*?)\n\};`, `(?m)^  "?([\w-]+)"?: \{`)

	for _, page := range entries {
		if !slices.Contains(names, page) {
			t.Errorf("the page %s has no name: add it to names in web/src/state/route.ts", page)
		}
	}
	for _, page := range names {
		if !slices.Contains(entries, page) {
			t.Errorf("the page %s has no entry: add it to web/src/pages/table.ts", page)
		}
	}
}

// TestWebSources: size and habits of the sources of the pages.
func TestWebSources(t *testing.T) {
	forbidden := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|dangerouslySetInnerHTML|document\.write|\beval\(|new Function`)
	// Text between tags, and texts of attributes that people read.
	words := regexp.MustCompile(`(?:[\w"}/]>|/>)\s*([A-Za-z][A-Za-z ,.!?']{2,})\s*<|(?:aria-label|title|placeholder|alt)="([^"]+)"`)
	for _, path := range filesBelow(t, filepath.Join(webDir, "src")) {
		data := string(readFile(t, path))
		if m := forbidden.FindString(data); m != "" {
			t.Errorf("%s uses %s; elements are made by Preact, never from a string", path, m)
		}
		if filepath.Ext(path) != ".tsx" {
			continue
		}
		for _, m := range words.FindAllStringSubmatch(data, -1) {
			t.Errorf("%s contains the text %q; put it into web/src/i18n", path, m[1]+m[2])
		}
	}
}

// TestWebTexts: every text has both languages with the same values in them, and is
// used; every code of a refusal has one.
func TestWebTexts(t *testing.T) {
	value := regexp.MustCompile(`\{\w+\}`)
	pair := regexp.MustCompile(`(?m)^  "([^"]+)": \[("(?:[^"\\]|\\.)*"), ("(?:[^"\\]|\\.)*")\],$`)
	names := func(text string) string {
		all := value.FindAllString(text, -1)
		slices.Sort(all)
		return strings.Join(all, "")
	}
	texts := map[string]string{} // values by key
	for _, path := range filesBelow(t, filepath.Join(webDir, "src", "i18n")) {
		name, data := filepath.Base(path), string(readFile(t, path))
		if name == "index.ts" || name == "said.ts" {
			continue
		}
		pairs := pair.FindAllStringSubmatch(data, -1)
		if len(pairs) == 0 || len(pairs) != strings.Count(data, "\n  \"") {
			t.Errorf("%s: want a line \"key\": [\"English\", \"Chinese\"] for each text", name)
		}
		for _, m := range pairs {
			if _, twice := texts[m[1]]; twice {
				t.Errorf("%s: %s is there twice", name, m[1])
			}
			if texts[m[1]] = names(m[2]); texts[m[1]] != names(m[3]) {
				t.Errorf("%s: %s has other values in Chinese", name, m[1])
			}
		}
	}
	code := regexp.MustCompile(`\{Name: "(\w+)"(?:, Params: \[\]string\{([^}]*)\})?`)
	codes := code.FindAllStringSubmatch(string(readFile(t, filepath.Join("internal", "web", "codes.go"))), -1)
	refusal := regexp.MustCompile(`(?:efuse\(w, http\.\w+|refusal\{http\.\w+|refuseUpload\(w, http\.\w+), "(\w+)()"`)
	for _, dir := range []string{"internal/web/auth", "internal/web/pages", "internal/run/gateway", "internal/web/socket"} {
		for _, path := range filesBelow(t, filepath.FromSlash(dir)) {
			if strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
				codes = append(codes, refusal.FindAllStringSubmatch(string(readFile(t, path)), -1)...)
			}
		}
	}
	if len(codes) < 160 {
		t.Errorf("found only %d codes", len(codes))
	}
	for _, m := range codes {
		values, ok := texts["error."+m[1]]
		if !ok {
			t.Errorf("web/src/i18n/errors.ts has no text for the code %s", m[1])
		}
		for _, v := range value.FindAllString(values, -1) {
			if m[2] != "" && !strings.Contains(m[2], `"`+strings.Trim(v, "{}")+`"`) {
				t.Errorf("the code %s has no value %s", m[1], v)
			}
		}
	}
	var all strings.Builder
	for _, path := range filesBelow(t, filepath.Join(webDir, "src")) {
		if filepath.Base(filepath.Dir(path)) != "i18n" {
			all.Write(readFile(t, path))
		}
	}
	source := all.String()
	for k := range texts {
		// Keys of tools, errors, findings and values are made of names that come over the wire.
		if group, _, _ := strings.Cut(k, "."); !strings.Contains(source, `"`+k+`"`) && !slices.Contains([]string{"tool", "error", "finding", "value"}, group) {
			t.Errorf("%s is not used", k)
		}
	}
	checks := findings(t)
	for id := range checks {
		if _, ok := texts["finding."+id]; !ok {
			t.Errorf("web/src/i18n/findings.ts has no title for the check %s", id)
		}
	}
	for k := range texts {
		if id, ok := strings.CutPrefix(k, "finding."); ok && !checks[id] {
			t.Errorf("there is no check %s", id)
		}
	}
}

// findings are the ids of the doctor's checks; one that ends in a dot has a name
// behind it.
func findings(t *testing.T) map[string]bool {
	t.Helper()
	named := regexp.MustCompile(`(?:ID: |say\(\w+, |logs\(|ok\(|const id = )"([a-z.]+)"`)
	ids := map[string]bool{}
	for _, path := range filesBelow(t, filepath.FromSlash("internal/run/doctor")) {
		if strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
			for _, m := range named.FindAllStringSubmatch(string(readFile(t, path)), -1) {
				ids[m[1]] = true
			}
		}
	}
	if len(ids) < 40 {
		t.Errorf("found only %d checks", len(ids))
	}
	return ids
}

// TestWebContrast computes the contrast of every pair of colours that the pages
// use, in both themes.
func TestWebContrast(t *testing.T) {
	css := string(readFile(t, filepath.Join(webDir, "src", "style", "tokens.css")))
	block := regexp.MustCompile(`(?s)(:root[^{]*)\{([^}]*)\}`)
	token := regexp.MustCompile(`--([\w-]+):\s*(#[0-9A-Fa-f]{6});`)
	themes := map[string]map[string]string{"light": {}, "dark": {}}
	for _, m := range block.FindAllStringSubmatch(css, -1) {
		theme := "light"
		if strings.Contains(m[1], "dark") {
			theme = "dark"
		}
		for _, c := range token.FindAllStringSubmatch(m[2], -1) {
			themes[theme][c[1]] = c[2]
		}
	}
	grounds := []string{"bg", "surface", "sunken"}
	for name, c := range themes {
		if len(c) != 19 {
			t.Fatalf("%s has %d colours, want 19", name, len(c))
		}
		check := func(least float64, front string, backs ...string) {
			for _, back := range backs {
				if got := contrast(t, c[front], c[back]); got < least {
					t.Errorf("%s: %s on %s has a contrast of %.2f, want %.1f", name, front, back, got, least)
				}
			}
		}
		for _, text := range []string{"ink", "ink-2", "ink-3", "accent", "good", "warn", "bad", "info"} {
			check(5, text, grounds...)
		}
		check(5, "on-accent", "accent")
		check(5, "warn", "warn-bg")
		check(5, "ink", "accent-soft", "add-bg", "del-bg", "line")
		check(3.5, "edge", grounds...)
		check(3.5, "focus", grounds...)
	}
}

func contrast(t *testing.T, a, b string) float64 {
	t.Helper()
	luminance := func(hex string) float64 {
		n, err := strconv.ParseUint(strings.TrimPrefix(hex, "#"), 16, 32)
		if err != nil {
			t.Fatal(err)
		}
		part := func(shift uint) float64 {
			v := float64(n>>shift&255) / 255
			if v <= 0.03928 {
				return v / 12.92
			}
			return math.Pow((v+0.055)/1.055, 2.4)
		}
		return 0.2126*part(16) + 0.7152*part(8) + 0.0722*part(0)
	}
	x, y := luminance(a), luminance(b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func decodeFile(t *testing.T, path string, into any) {
	t.Helper()
	if err := json.Unmarshal(readFile(t, path), into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

func filesBelow(t *testing.T, dir string) (out []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			out = append(out, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
