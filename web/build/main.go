// Command build makes the web pages: it bundles web/src with the libraries in
// web/vendor into internal/web/pages/dist. It needs neither Node nor the network.
//
//	build            write the pages
//	build -check     report whether the committed pages are what the sources give
//	build -tests DIR bundle web/test/unit for node --test
//	build -vendor    write the hashes in vendor.json
package main

import (
	"bytes"
	"compress/gzip"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	root := flag.String("root", "../..", "folder of the repository")
	check := flag.Bool("check", false, "compare with the committed pages instead of writing them")
	tests := flag.String("tests", "", "bundle the unit tests into this folder instead")
	vendor := flag.Bool("vendor", false, "write the hashes in web/vendor/vendor.json instead")
	flag.Parse()
	if err := run(*root, *check, *tests, *vendor); err != nil {
		fmt.Fprintln(os.Stderr, "web/build:", err)
		os.Exit(1)
	}
}

func run(root string, check bool, tests string, vendor bool) error {
	web, err := filepath.Abs(filepath.Join(root, "web"))
	if err != nil {
		return err
	}

	switch {
	case vendor:
		return writeVendor(web)
	case tests != "":
		return bundleTests(web, tests)
	}

	files, err := bundle(web)
	if err != nil {
		return err
	}
	if files["manifest.json"], err = manifest(web, files); err != nil {
		return err
	}

	dist := filepath.Join(root, "internal", "web", "pages", "dist")
	if check {
		return compare(dist, files)
	}
	return write(dist, files)
}

// storedAs is the name of a file in the folder. Text is compressed there: the
// program embeds the folder, and browsers take it like that.
func storedAs(name string) string {
	if name == "manifest.json" || filepath.Ext(name) == ".png" {
		return name
	}
	return name + ".gz"
}

// belongs reports whether a file of the folder is one of the pages.
func belongs(file string, files map[string][]byte) bool {
	name := strings.TrimSuffix(file, ".gz")
	return files[name] != nil && storedAs(name) == file
}

func compress(data []byte) ([]byte, error) {
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := z.Write(data); err != nil {
		return nil, err
	}

	err = z.Close()
	return out.Bytes(), err
}

// content is what a file of the folder holds. Two versions of Go may compress the
// same text differently.
func content(path string) ([]byte, error) {
	data, err := os.ReadFile(path)
	if err != nil || filepath.Ext(path) != ".gz" {
		return data, err
	}
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(z)
}

// compare reports the first committed file that is not what the sources give.
func compare(dist string, files map[string][]byte) error {
	there, err := os.ReadDir(dist)
	if err != nil {
		return err
	}

	for _, e := range there {
		if !belongs(e.Name(), files) {
			return fmt.Errorf("%s does not belong to the pages: run make web", filepath.Join(dist, e.Name()))
		}
	}

	for _, name := range slices.Sorted(maps.Keys(files)) {
		got, err := content(filepath.Join(dist, storedAs(name)))
		if err != nil || !bytes.Equal(got, files[name]) {
			return fmt.Errorf("%s is stale: run make web", filepath.Join(dist, name))
		}
	}
	return nil
}

// write replaces the pages.
func write(dist string, files map[string][]byte) error {
	if err := os.MkdirAll(dist, 0o755); err != nil {
		return err
	}

	there, err := os.ReadDir(dist)
	if err != nil {
		return err
	}

	for _, e := range there {
		if belongs(e.Name(), files) {
			continue
		}
		if err := os.Remove(filepath.Join(dist, e.Name())); err != nil {
			return err
		}
	}

	for name, data := range files {
		path := filepath.Join(dist, storedAs(name))
		if old, err := content(path); err == nil && bytes.Equal(old, data) {
			continue
		}

		if storedAs(name) != name {
			if data, err = compress(data); err != nil {
				return err
			}
		}

		if err := os.WriteFile(path, data, 0o644); err != nil {
			return err
		}
	}

	return nil
}
