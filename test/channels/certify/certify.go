// Package certify runs the client libraries of other vendors against our fakes
// of their platforms: a fake that the vendor's own library works with is not our
// misunderstanding of the platform. In the same way it runs them against our API.
//
// A folder below test holds the scripts and names the libraries at
// pinned versions, in package.json with package-lock.json or in
// requirements.txt. They are installed into its folder .installed when CI or
// NANOBOT_SDK is set. Elsewhere a test runs only where they are installed
// already, so that an ordinary test run needs no network.
package certify

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

const (
	installTime = 2 * time.Minute // a homeserver of 240 MB is among them
	scriptTime  = 20 * time.Minute
	stamp       = "installed.sha256" // of the files that name the libraries
)

// Script runs a script of the folder source, such as client.mjs or client.py,
// beside the libraries that the folder names, and returns what it printed. The
// test fails if the script does, and is skipped with a reason if the libraries
// cannot be had.
func Script(t *testing.T, source, script string, args ...string) []byte {
	t.Helper()
	program, names := "node", []string{"package.json", "package-lock.json"}
	if strings.HasSuffix(script, ".py") {
		program, names = "python3", []string{"requirements.txt"}
	}
	if _, err := exec.LookPath(program); err != nil {
		t.Skipf("%s is not installed", program)
	}
	dir := libraries(t, source, program, names)

	file, err := filepath.Abs(filepath.Join(source, script))
	if err != nil {
		t.Fatal(err)
	}
	if program == "node" { // looks for libraries beside the script
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		file = filepath.Join(dir, script)
		if err := os.WriteFile(file, data, 0o600); err != nil { //nolint:gosec // names of this repository
			t.Fatal(err)
		}
	} else {
		program = interpreter(dir)
	}
	out, stderr, err := run(t.Context(), scriptTime, dir, program, append([]string{file}, args...)...)
	if err != nil {
		t.Fatalf("%s: %v\n%s\n%s", script, err, out, stderr)
	}
	return out
}

// Python is an interpreter with the libraries that requirements.txt of the
// folder source names, for a test that runs programs of its own. The test is
// skipped with a reason if they cannot be had.
func Python(t *testing.T, source string) string {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not installed")
	}
	return interpreter(libraries(t, source, "python3", []string{"requirements.txt"}))
}

// Node is a folder with the libraries that package.json of the folder source
// names, for a test that runs programs of its own. The test is skipped with a
// reason if they cannot be had.
func Node(t *testing.T, source string) string {
	t.Helper()
	if _, err := exec.LookPath("node"); err != nil {
		t.Skip("node is not installed")
	}
	return libraries(t, source, "node", []string{"package.json", "package-lock.json"})
}

// Wheel is a package of PyPI, which requirements.txt of the folder source names
// with its hash, as the file that was published. Nothing of it is installed. The
// test is skipped with a reason if it cannot be had.
func Wheel(t *testing.T, source string) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join(source, ".installed", "wheel"))
	if err != nil {
		t.Fatal(err)
	}
	if all, _ := filepath.Glob(filepath.Join(dir, "*.whl")); len(all) == 1 {
		return all[0]
	}
	if os.Getenv("CI") == "" && os.Getenv("NANOBOT_SDK") == "" {
		t.Skip("the package is not fetched; set NANOBOT_SDK=1 to fetch it")
	}
	out, stderr, err := run(t.Context(), installTime, source, "python3", "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes",
		"--no-input", "--disable-pip-version-check", "--timeout=10", "--retries=1", "--dest", dir, "-r", "requirements.txt")
	said := string(out) + string(stderr)
	if err != nil && strings.Contains(said, "DO NOT MATCH THE HASHES") {
		t.Fatalf("pip: %v\n%s", err, said)
	}
	all, _ := filepath.Glob(filepath.Join(dir, "*.whl"))
	if err != nil || len(all) != 1 {
		t.Skipf("the package cannot be fetched: %v\n%s", err, said)
	}
	return all[0]
}

// libraries is a folder with what the files of these names ask for.
func libraries(t *testing.T, source, program string, names []string) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join(source, ".installed", program))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	sum := sha256.New()
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join(source, name))
		if err != nil {
			t.Fatal(err)
		}
		files[name] = data
		sum.Write(data)
	}
	want := []byte(hex.EncodeToString(sum.Sum(nil)))
	if got, err := os.ReadFile(filepath.Join(dir, stamp)); err == nil && bytes.Equal(got, want) {
		return dir
	}
	if os.Getenv("CI") == "" && os.Getenv("NANOBOT_SDK") == "" {
		t.Skipf("the libraries of %s are not installed; set NANOBOT_SDK=1 to install them", filepath.Base(filepath.Dir(filepath.Dir(dir))))
	}

	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o700)); err != nil {
		t.Fatal(err)
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	install(t, dir, program)
	if err := os.WriteFile(filepath.Join(dir, stamp), want, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// install fetches libraries. What cannot be fetched skips the test; what was
// fetched and is not what was pinned fails it.
func install(t *testing.T, dir, program string) {
	t.Helper()
	steps := [][]string{{"npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--fetch-timeout=10000", "--fetch-retries=1"}}
	if program != "node" {
		venv, pip := []string{program, "-m", "venv", "venv"}, []string{interpreter(dir), "-m", "pip"}
		if hasPip(t.Context(), program) { // a pip of its own costs five seconds of the processor
			venv, pip = append(venv, "--without-pip"), []string{program, "-m", "pip", "--python", interpreter(dir)}
		}
		steps = [][]string{venv, append(pip, "install", "--quiet", "--no-compile", "--no-input", "--disable-pip-version-check", "--timeout=10", "--retries=1", "-r", "requirements.txt")}
	}
	for _, step := range steps {
		out, stderr, err := run(t.Context(), installTime, dir, step[0], step[1:]...)
		said := string(out) + string(stderr)
		switch {
		case err == nil:
		case strings.Contains(said, "EINTEGRITY") || strings.Contains(said, "EUSAGE") || strings.Contains(said, "DO NOT MATCH THE HASHES"):
			t.Fatalf("%s: %v\n%s", step[0], err, said)
		default:
			t.Skipf("the libraries cannot be fetched: %s: %v\n%s", step[0], err, said)
		}
	}
}

// hasPip reports whether this Python has a pip that installs for another one.
func hasPip(ctx context.Context, python string) bool {
	out, _, err := run(ctx, installTime, ".", python, "-c", "import pip; print(int(pip.__version__.split('.')[0]) >= 23)")
	return err == nil && strings.TrimSpace(string(out)) == "True"
}

// interpreter is Python with the libraries of a folder.
func interpreter(dir string) string {
	if runtime.GOOS == "windows" {
		return filepath.Join(dir, "venv", "Scripts", "python.exe")
	}
	return filepath.Join(dir, "venv", "bin", "python3")
}

func run(ctx context.Context, limit time.Duration, dir, program string, args ...string) (out, stderr []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	var stdout, complaint bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = dir, &stdout, &complaint, 2*time.Second
	err = cmd.Run()
	if ctx.Err() != nil && err != nil {
		err = errors.Join(err, ctx.Err())
	}
	return stdout.Bytes(), complaint.Bytes(), err
}
