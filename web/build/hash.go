package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// sourceHash is the hash of everything the pages are made of. The tests of the
// repository compute it in the same way (web_test.go).
func sourceHash(web string) (string, error) {
	h := sha256.New()
	sentences := filepath.Join("..", "internal", "base", "phrase", "zh.json")
	for _, dir := range []string{"build", "src", sentences, "vendor"} {
		err := filepath.WalkDir(filepath.Join(web, dir), func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}

			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}

			rel, err := filepath.Rel(web, path)
			if err != nil {
				return err
			}

			fmt.Fprintf(h, "%s %d\n", filepath.ToSlash(rel), len(data))
			h.Write(data)
			return nil
		})
		if err != nil {
			return "", err
		}
	}

	return hex.EncodeToString(h.Sum(nil)), nil
}

// manifest says what the pages were made of and what they consist of.
func manifest(web string, files map[string][]byte) ([]byte, error) {
	sources, err := sourceHash(web)
	if err != nil {
		return nil, err
	}

	h := sha256.New()
	sizes := map[string]int{}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(h, "%s %d\n", name, len(files[name]))
		h.Write(files[name])
		sizes[name] = len(files[name])
	}

	out, err := json.MarshalIndent(map[string]any{
		"sources": sources,
		"build":   hex.EncodeToString(h.Sum(nil))[:16],
		"files":   sizes,
	}, "", "  ")
	return append(out, '\n'), err
}

// library is one entry of vendor.json.
type library struct {
	Name    string            `json:"name"`
	Version string            `json:"version"`
	Licence string            `json:"licence"`
	Source  string            `json:"source"`
	Folder  string            `json:"folder"`
	Files   map[string]string `json:"files"` // SHA-256 by name
}

// writeVendor brings the hashes in vendor.json up to date.
func writeVendor(web string) error {
	path := filepath.Join(web, "vendor", "vendor.json")
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}

	var all []library
	if err := json.Unmarshal(data, &all); err != nil {
		return err
	}

	for i := range all {
		l := &all[i]
		l.Files = map[string]string{}
		dir := filepath.Join(web, "vendor", l.Folder)
		there, err := os.ReadDir(dir)
		if err != nil {
			return err
		}

		for _, e := range there {
			data, err := os.ReadFile(filepath.Join(dir, e.Name()))
			if err != nil {
				return err
			}
			l.Files[e.Name()] = fmt.Sprintf("%x", sha256.Sum256(data))
		}
	}

	if data, err = json.MarshalIndent(all, "", "  "); err != nil {
		return err
	}
	return os.WriteFile(path, append(data, '\n'), 0o644)
}
