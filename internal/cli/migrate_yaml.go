package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"go.yaml.in/yaml/v3"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/run/config"
)

// yamlToConvert returns the configuration in YAML that migrate turns into JSON, and the
// file that it becomes; "" if there is none.
func (c *migrateCommand) yamlToConvert() (from, to string, err error) {
	file, err := c.home.file()
	if err != nil {
		return "", "", err
	}
	if config.IsYAML(file) {
		return file, filepath.Join(filepath.Dir(file), "config.json"), nil
	}
	if _, err := os.Lstat(file); err == nil {
		return "", "", nil
	}
	return config.YAMLBeside(file), file, nil
}

// convertYAML writes a configuration in YAML as JSON, after a look at whether it can be
// used. The file in YAML stays.
func (c *migrateCommand) convertYAML(from, to string, yes, dry bool) error {
	if _, err := os.Lstat(to); err == nil {
		return fmt.Errorf("%s exists already; move it away first, or remove %s", to, from)
	}

	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}

	var root map[string]any
	if err := yaml.Unmarshal(data, &root); err != nil {
		return fmt.Errorf("%s is not YAML that can be read: %w", from, err)
	}

	text, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		return fmt.Errorf("%s has keys that JSON does not know: %w", from, err)
	}

	text = append(text, '\n')
	o := c.home.options()
	o.Path = to
	o.Text = text
	o.Optional = true
	if _, err := config.Load(o); err != nil {
		return err
	}

	c.say("%s becomes %s. Comments are lost; the file in YAML stays, and is not used.\n", from, to)
	switch {
	case dry:
		return nil
	case !yes:
		ok, err := c.agrees(c.in("Write it?"))
		if err != nil || !ok {
			return err
		}
	}

	if err := diskio.WriteFile(to, text, 0o600); err != nil {
		return err
	}

	c.say("Wrote %s\n", to)
	return nil
}
