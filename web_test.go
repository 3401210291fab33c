package nanobot_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
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
	webDist = "internal/webui/pages/dist"
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
		if l.Licence == "" || l.Version == "" || !strings.HasPrefix(l.Source, "https://registry.npmjs.org/") || l.Files["LICENSE"] == "" {
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
	for _, dir := range []string{"build", "src", "vendor"} {
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
		name := filepath.Base(path)
		if size, ok := manifest.Files[name]; name != "manifest.json" && (!ok || size != len(readFile(t, path))) {
			t.Errorf("%s is not what the manifest says: run make web", path)
		}
	}
}

// TestWebSizes: what the pages weigh, compressed.
func TestWebSizes(t *testing.T) {
	const first, styles, everything, embedded = 100_000, 16_000, 260_000, 1_000_000
	// What the document loads before a message can be sent: its own script and
	// styles, and what they import.
	loaded := map[string]bool{}
	for _, m := range regexp.MustCompile(`assets/BUILD/([\w.]+\.(?:js|css))`).FindAllStringSubmatch(string(readFile(t, filepath.Join(webDist, "index.html"))), -1) {
		loaded[m[1]] = true
	}
	var sum struct{ first, styles, all, raw int }
	for _, path := range filesBelow(t, webDist) {
		data := readFile(t, path)
		sum.raw += len(data)
		name, ext := filepath.Base(path), filepath.Ext(path)
		if ext != ".js" && ext != ".css" {
			continue
		}
		var b bytes.Buffer
		w, _ := gzip.NewWriterLevel(&b, gzip.BestCompression)
		_, _ = w.Write(data)
		_ = w.Close()
		sum.all += b.Len()
		if loaded[name] {
			sum.first += b.Len()
		}
		if ext == ".css" {
			sum.styles += b.Len()
		}
	}
	t.Logf("before the first message %d, styles %d, all %d, embedded %d bytes", sum.first, sum.styles, sum.all, sum.raw)
	if !loaded["main.js"] || !loaded["main.css"] || sum.first > first || sum.styles > styles || sum.all > everything || sum.raw > embedded {
		t.Errorf("the pages are too large: %+v; at most %d, %d, %d and %d bytes", sum, first, styles, everything, embedded)
	}
}

// TestWebSources: size and habits of the sources of the pages.
func TestWebSources(t *testing.T) {
	forbidden := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|dangerouslySetInnerHTML|document\.write|\beval\(|new Function`)
	// Text between tags, and texts of attributes that people read.
	words := regexp.MustCompile(`(?:[\w"}/]>|/>)\s*([A-Za-z][A-Za-z ,.!?']{2,})\s*<|(?:aria-label|title|placeholder|alt)="([^"]+)"`)
	total := 0
	for _, path := range filesBelow(t, filepath.Join(webDir, "src")) {
		data := string(readFile(t, path))
		lines := strings.Count(data, "\n")
		total += lines
		if lines > 400 {
			t.Errorf("%s has %d lines; at most 400", path, lines)
		}
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
	if total > 15_000 {
		t.Errorf("web/src has %d lines; at most 15000", total)
	}
}

// TestWebTexts: both languages have the same keys with the same values in them,
// and every key is used.
func TestWebTexts(t *testing.T) {
	entry := regexp.MustCompile(`(?m)^  "([^"]+)": "((?:[^"\\]|\\.)*)",$`)
	value := regexp.MustCompile(`\{\w+\}`)
	read := func(name string) map[string]string {
		out := map[string]string{}
		for _, m := range entry.FindAllStringSubmatch(string(readFile(t, filepath.Join(webDir, "src", "i18n", name))), -1) {
			if out[m[1]] != "" {
				t.Errorf("%s: %s is there twice", name, m[1])
			}
			names := value.FindAllString(m[2], -1)
			slices.Sort(names)
			out[m[1]] = "text" + strings.Join(names, "")
		}
		return out
	}
	en, zh := read("en.ts"), read("zh.ts")
	if len(en) == 0 || !maps.Equal(en, zh) {
		for _, k := range slices.Sorted(maps.Keys(en)) {
			if en[k] != zh[k] {
				t.Errorf("%s: English %q, Chinese %q", k, en[k], zh[k])
			}
		}
		for k := range zh {
			if en[k] == "" {
				t.Errorf("%s is only in Chinese", k)
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
	for k := range en {
		// Keys of tools and errors are made of names that come over the wire.
		if !strings.Contains(source, `"`+k+`"`) && !strings.HasPrefix(k, "tool.") && !strings.HasPrefix(k, "error.") {
			t.Errorf("%s is not used", k)
		}
	}
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
