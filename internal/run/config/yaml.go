package config

import (
	"os"
	"path/filepath"
	"strings"
)

// IsYAML reports whether a file is one of YAML by its name. nanobot reads JSON only.
func IsYAML(file string) bool {
	switch strings.ToLower(filepath.Ext(file)) {
	case ".yaml", ".yml":
		return true
	}
	return false
}

// YAMLBeside returns a configuration in YAML that lies where config.json is missing; ""
// if there is none.
func YAMLBeside(file string) string {
	dir := filepath.Dir(file)
	for _, name := range []string{"config.yaml", "config.yml", "nanobot.yaml", "nanobot.yml"} {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path
		}
	}
	return ""
}
