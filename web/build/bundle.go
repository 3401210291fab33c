package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/evanw/esbuild/pkg/api"
)

// entries are the files that the document loads by name; alone are scripts that
// share no part with them: one runs before the first paint, two in workers.
var (
	entries = []string{"main.tsx", "main.css"}
	alone   = []string{"boot.ts", "highlight.worker.ts", "sw.ts"}
)

// libraries maps the names of imports to files in web/vendor.
var libraries = map[string]string{
	"preact":               "preact/preact.mjs",
	"preact/hooks":         "preact/hooks.mjs",
	"preact/jsx-runtime":   "preact/jsx-runtime.mjs",
	"@preact/signals":      "signals/signals.mjs",
	"@preact/signals-core": "signals-core/signals-core.mjs",
	"marked":               "marked/marked.esm.js",
	"temml":                "temml/temml.mjs",
}

// options are those of pages and tests alike. Settings of the machine, such as
// a tsconfig.json or installed packages, have no influence.
func options(web string) api.BuildOptions {
	alias := map[string]string{}
	for name, file := range libraries {
		alias[name] = filepath.Join(web, "vendor", filepath.FromSlash(file))
	}
	return api.BuildOptions{
		AbsWorkingDir: web,
		Alias:         alias,
		Bundle:        true,
		Format:        api.FormatESModule,
		Charset:       api.CharsetUTF8,
		JSX:           api.JSXAutomatic,
		// The imports of JSX are bare names, which the aliases above resolve.
		JSXImportSource: "preact",
		Define:          map[string]string{"global": "globalThis"},
		LegalComments:   api.LegalCommentsNone,
		LogLevel:        api.LogLevelSilent,
		TsconfigRaw:     `{"compilerOptions":{"target":"ES2022","useDefineForClassFields":true}}`,
		Write:           false,
	}
}

// bundle builds the pages and returns the files by name.
func bundle(web string) (map[string][]byte, error) {
	o := options(web)
	o.Outdir = filepath.Join(web, "out")
	o.EntryNames, o.ChunkNames = "[name]", "[name]-[hash]"
	o.MinifyWhitespace, o.MinifyIdentifiers, o.MinifySyntax = true, true, true
	o.Metafile = true
	o.Engines = []api.Engine{
		{Name: api.EngineChrome, Version: "109"},
		{Name: api.EngineFirefox, Version: "115"},
		{Name: api.EngineSafari, Version: "16.4"},
	}

	files := map[string][]byte{}

	o.EntryPoints = sources(web, alone)
	o.Format = api.FormatIIFE
	result := api.Build(o)
	if err := failed(result); err != nil {
		return nil, err
	}

	for _, f := range result.OutputFiles {
		files[filepath.Base(f.Path)] = f.Contents
	}

	o.EntryPoints = sources(web, entries)
	o.Format = api.FormatESModule
	o.Splitting = true
	result = api.Build(o)
	if err := failed(result); err != nil {
		return nil, err
	}

	for _, f := range result.OutputFiles {
		files[filepath.Base(f.Path)] = f.Contents
	}

	files, err := stable(files, result.Metafile)
	if err != nil {
		return nil, err
	}

	for _, name := range []string{"index.html", "away.html", "manifest.webmanifest", "icon.svg", "icon-192.png", "icon-512.png"} {
		if files[name], err = os.ReadFile(filepath.Join(web, "src", name)); err != nil {
			return nil, err
		}
	}

	files["index.html"] = preload(files["index.html"], files["main.js"])
	return files, nil
}

func sources(web string, names []string) (out []string) {
	for _, n := range names {
		out = append(out, filepath.Join(web, "src", n))
	}
	return out
}

var imported = regexp.MustCompile(`(?:from|import)"\./(shared\d+\.js)"`)

// preload names the parts that the main script imports, so that the browser
// loads them at once.
func preload(document, script []byte) []byte {
	var links strings.Builder
	for _, m := range imported.FindAllSubmatch(script, -1) {
		fmt.Fprintf(&links, "<link rel=\"modulepreload\" href=\"assets/BUILD/%s\">\n", m[1])
	}
	return []byte(strings.Replace(string(document), "</head>", links.String()+"</head>", 1))
}

// failed turns what the bundler has to say into an error.
func failed(r api.BuildResult) error {
	var all []error
	for _, m := range slices.Concat(r.Errors, r.Warnings) {
		where := ""
		if m.Location != nil {
			where = fmt.Sprintf("%s:%d: ", m.Location.File, m.Location.Line)
		}
		all = append(all, errors.New(where+m.Text))
	}
	return errors.Join(all...)
}

var hashed = regexp.MustCompile(`[\w.-]+-[A-Z0-9]{8}\.(?:js|css)`)

// stable gives chunks names without a hash, so that a small change of the
// sources is a small change of the output: a page is called like its source, and
// shared parts are numbered in the order of what they contain.
func stable(files map[string][]byte, metafile string) (map[string][]byte, error) {
	var meta struct {
		Outputs map[string]struct {
			EntryPoint string
			Inputs     map[string]json.RawMessage
		}
	}
	if err := json.Unmarshal([]byte(metafile), &meta); err != nil {
		return nil, err
	}

	type chunk struct{ name, entry, inputs string }
	var chunks []chunk
	for path, out := range meta.Outputs {
		name := filepath.Base(path)
		if !hashed.MatchString(name) {
			continue
		}

		var inputs []string
		for in := range out.Inputs {
			inputs = append(inputs, in)
		}

		slices.Sort(inputs)
		chunks = append(chunks, chunk{name, out.EntryPoint, strings.Join(inputs, "\n")})
	}

	slices.SortFunc(chunks, func(a, b chunk) int { return strings.Compare(a.inputs, b.inputs) })

	names := map[string]string{}
	taken := map[string]bool{}
	for n := range files {
		taken[n] = true
	}

	shared := 0
	for _, c := range chunks {
		var name string
		if c.entry != "" {
			name = strings.TrimSuffix(filepath.Base(c.entry), filepath.Ext(c.entry)) + filepath.Ext(c.name)
		} else {
			shared++
			name = fmt.Sprintf("shared%d%s", shared, filepath.Ext(c.name))
		}

		if taken[name] {
			return nil, fmt.Errorf("two files would be called %s: rename one of the sources", name)
		}

		taken[name] = true
		names[c.name] = name
	}

	out := map[string][]byte{}
	for name, data := range files {
		if n, ok := names[name]; ok {
			name = n
		}
		out[name] = hashed.ReplaceAllFunc(data, func(b []byte) []byte {
			if n, ok := names[string(b)]; ok {
				return []byte(n)
			}
			return b
		})
	}

	return out, nil
}

// bundleTests makes a script of every unit test.
func bundleTests(web, dir string) error {
	found, err := filepath.Glob(filepath.Join(web, "test", "unit", "*.test.ts*"))
	if err != nil {
		return err
	}

	o := options(web)
	o.EntryPoints = found
	if o.Outdir, err = filepath.Abs(dir); err != nil {
		return err
	}

	o.OutExtension = map[string]string{".js": ".mjs"}
	o.Platform = api.PlatformNode
	o.Define = nil
	o.Sourcemap = api.SourceMapInline
	o.Write = true
	return failed(api.Build(o))
}
