package cli

import (
	"cmp"
	"context"
	"fmt"
	"os/exec"
	"strings"
)

// openEditor waits for the person's editor.
func (c *console) openEditor(ctx context.Context, file string) error {
	editor := strings.Fields(cmp.Or(c.getenv("VISUAL"), c.getenv("EDITOR"), defaultEditor))
	argv := append(editor, file)
	ed := exec.CommandContext(ctx, argv[0], argv[1:]...) //nolint:gosec // it is theirs
	ed.Stdin = c.In
	ed.Stdout = c.Out
	ed.Stderr = c.Err
	ed.Env = c.Env
	if err := ed.Run(); err != nil {
		return fmt.Errorf("the editor %s: %w", argv[0], err)
	}
	return nil
}
