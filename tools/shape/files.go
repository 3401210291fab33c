package main

import (
	"archive/tar"
	"errors"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// file is a file with code.
type file struct {
	path string // below the root, with slashes
	text string
}

// kind is what a file is for.
type kind int

const (
	product kind = iota
	tests        // and suites, fakes, benchmarks
	tooling      // builds and checks the product
	kinds
)

func (f file) folder() string { return path.Dir(f.path) }

func (f file) isGo() bool { return path.Ext(f.path) == ".go" }

func (f file) kind() kind {
	folder := f.folder()
	elements := strings.Split(folder, "/")
	isTest := func(element string) bool { return strings.HasSuffix(element, "test") }

	switch {
	case elements[0] == "tools", strings.HasPrefix(folder+"/", "web/build/"):
		return tooling
	case strings.HasSuffix(f.path, "_test.go"), slices.ContainsFunc(elements, isTest), elements[0] == "bench":
		return tests
	case !f.isGo() && !strings.HasPrefix(folder+"/", "web/src/"):
		return tooling
	}
	return product
}

// isGenerated reports whether one of the first lines says that no person writes
// the file.
func (f file) isGenerated() bool {
	for i, line := range strings.SplitN(f.text, "\n", 4) {
		if i < 3 && strings.HasPrefix(line, "//") && strings.Contains(strings.ToLower(line), "do not edit") {
			return true
		}
	}
	return false
}

// hasCode reports whether a file is code that we wrote.
func hasCode(name string) bool {
	if !slices.Contains([]string{".go", ".ts", ".tsx", ".mjs"}, path.Ext(name)) {
		return false
	}
	return !slices.ContainsFunc(strings.Split(name, "/"), isForeign)
}

// isForeign reports whether a folder of this name holds what we did not write, what
// is made from our code, or data.
func isForeign(element string) bool {
	switch element {
	case "vendor", "node_modules", "dist", "testdata":
		return true
	}
	return len(element) > 1 && (element[0] == '.' || element[0] == '_')
}

func readFolder(root fs.FS) ([]file, error) {
	var files []file
	err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && isForeign(entry.Name()):
			return fs.SkipDir
		case !entry.Type().IsRegular() || !hasCode(name):
			return nil
		}
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		files = append(files, file{name, string(text)})
		return nil
	})
	return files, err
}

func readArchive(in io.Reader) ([]file, error) {
	var files []file
	archive := tar.NewReader(in)
	for {
		head, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, err
		}
		if head.Typeflag != tar.TypeReg || !hasCode(head.Name) {
			continue
		}
		text, err := io.ReadAll(archive)
		if err != nil {
			return nil, err
		}
		files = append(files, file{head.Name, string(text)})
	}
}
