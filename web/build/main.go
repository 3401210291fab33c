// Command build makes the web pages: it bundles web/src with the libraries in
// web/vendor into internal/webui/pages/dist. It needs neither Node nor the network.
//
//	build            write the pages
//	build -check     report whether the committed pages are what the sources give
//	build -tests DIR bundle web/test/unit for node --test
//	build -vendor    write the hashes in vendor.json
package main

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
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
	dist := filepath.Join(root, "internal", "webui", "pages", "dist")
	if check {
		return compare(dist, files)
	}
	return write(dist, files)
}

// compare reports the first committed file that is not what the sources give.
func compare(dist string, files map[string][]byte) error {
	there, err := os.ReadDir(dist)
	if err != nil {
		return err
	}
	for _, e := range there {
		if _, ok := files[e.Name()]; !ok {
			return fmt.Errorf("%s does not belong to the pages: run make web", filepath.Join(dist, e.Name()))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		got, err := os.ReadFile(filepath.Join(dist, name))
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
		if _, ok := files[e.Name()]; ok {
			continue
		}
		if err := os.Remove(filepath.Join(dist, e.Name())); err != nil {
			return err
		}
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dist, name), data, 0o644); err != nil {
			return err
		}
	}
	return nil
}
