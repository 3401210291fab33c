package daemon

import (
	"fmt"
	"os"
)

// canReplace says whether a program can take the place of another.
const canReplace = false

// ReplaceProcess starts another program on the same console and waits for it,
// which is as close as Windows comes to replacing a process.
func ReplaceProcess(exe string, args, env []string) error {
	p, err := os.StartProcess(exe, args, &os.ProcAttr{Env: env, Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}})
	if err != nil {
		return fmt.Errorf("restart: %w", err)
	}

	st, err := p.Wait()
	if err != nil {
		return fmt.Errorf("restart: %w", err)
	}
	if code := st.ExitCode(); code != 0 {
		return &ExitError{code}
	}
	return nil
}
