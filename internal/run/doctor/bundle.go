package doctor

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/run/gateway"
)

// Report is a Diagnosis for programs.
type Report struct {
	Version  string    `json:"version"`
	OK       bool      `json:"ok"`
	Failures int       `json:"failures"`
	Warnings int       `json:"warnings"`
	Fixed    []string  `json:"fixed,omitempty"`
	Checks   []Symptom `json:"checks"`
}

// Report sums the diagnosis up.
func (d *Diagnosis) Report(version string, fixed []string) Report {
	return Report{
		Version: version, OK: d.count(Broken) == 0, Failures: d.count(Broken), Warnings: d.count(Doubt),
		Fixed: fixed, Checks: d.Symptoms,
	}
}

// bundleLines is how much of the log goes into a bundle.
const bundleLines = 500

// WriteBundle writes what a helper needs: findings, settings that are set,
// versions and the end of the log. Credentials are hidden in all of it.
func (d *Diagnosis) WriteBundle(file string, r Report, env []string) (err error) {
	clean := d.redactor(env)
	files := map[string][]byte{}
	if files["doctor.json"], err = json.MarshalIndent(r, "", "  "); err != nil {
		return err
	}

	if files["version.json"], err = json.MarshalIndent(map[string]string{
		"version": r.Version, "go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH,
	}, "", "  "); err != nil {
		return err
	}

	if d.Config != nil {
		files["config.json"] = d.Config.Show(true)
		var log bytes.Buffer
		if data, err := tailFile(gateway.LogFile(d.Config), bundleLines); err == nil {
			log.Write(data)
		}

		files["gateway.log"] = log.Bytes()
		if data, err := tailFile(gateway.LogFile(d.Config)+".start", bundleLines); err == nil {
			files["gateway.start.log"] = data
		}
	}

	f, err := os.OpenFile(filepath.Clean(file), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}

	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			err = errors.Join(err, os.Remove(file))
		}
	}()

	z := zip.NewWriter(f)
	for _, name := range []string{"doctor.json", "version.json", "config.json", "gateway.log", "gateway.start.log"} {
		data, ok := files[name]
		if !ok {
			continue
		}

		w, err := z.Create(name)
		if err != nil {
			return err
		}
		if _, err := w.Write([]byte(clean(string(data)))); err != nil {
			return err
		}
	}

	return z.Close()
}

// redactor hides every credential of the configuration and the environment,
// and what looks like one.
func (d *Diagnosis) redactor(env []string) func(string) string {
	r := &httpsafe.Registry{}
	if d.Config != nil {
		for name, s := range d.Config.Secrets() {
			_ = r.Add(name, s) // what is too ordinary to be found is too ordinary to be a key
		}
	}
	r.AddEnv(env)
	return func(s string) string { return httpsafe.RedactPatterns(r.Redact(s)) }
}

// tailFile returns the end of a log. It reads the last megabytes only.
func tailFile(path string, lines int) ([]byte, error) {
	const most = 4 << 20
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}

	defer f.Close() //nolint:errcheck // only read
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}

	start := max(0, info.Size()-most)
	data := make([]byte, info.Size()-start)
	n, err := f.ReadAt(data, start)
	if n == 0 && err != nil {
		return nil, err
	}

	all := strings.SplitAfter(string(data[:n]), "\n")
	if start > 0 && len(all) > 1 {
		all = all[1:] // half a line
	}
	return []byte(strings.Join(all[max(0, len(all)-lines-1):], "")), nil
}
