package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/nanobot-go/nanobot/internal/app"
	"github.com/nanobot-go/nanobot/internal/config"
	"github.com/nanobot-go/nanobot/internal/gitstore"
	"github.com/nanobot-go/nanobot/internal/memory"
	"github.com/nanobot-go/nanobot/internal/session/search"
)

func (c *command) memoryCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "memory", Short: "Show, edit, undo and forget memories",
		Long: `memory manages the long-term memory: USER.md about you, SOUL.md about how the agent
behaves, MEMORY.md about everything else. A git repository keeps earlier
versions, so that you can view and undo every change.`,
		Example: `  nanobot memory show --why
  nanobot memory edit USER
  nanobot memory log
  nanobot memory restore 3f2a91bc --only
  nanobot memory search "old address"
  nanobot memory forget "old address"`,
		Args: subcommand, RunE: showHelp,
	}
	cmd.AddCommand(c.memoryShow(), c.memoryEdit(), c.memoryLog(), c.memoryDiff(), c.memoryRestore(), c.memoryForget(),
		c.memoryConfirm(), c.memoryReject(), c.memorySearch())
	return cmd
}

// memoryOf is the memory of the workspace in use.
type memoryOf struct {
	workspace string
	dir       string // of the authoritative files
	repo      *gitstore.Store
	history   *memory.History
	dream     *memory.Dream // only what it noted; it runs elsewhere
	index     *search.Index
}

// noWorkspaceError says that nanobot has not been used here yet. It is no mistake of
// the one who asks, unless they named the workspace themselves.
type noWorkspaceError struct{ path string }

func (e noWorkspaceError) Error() string {
	return fmt.Sprintf("nothing is stored yet: the first conversation (nanobot agent) or nanobot onboard creates the workspace %s", e.path)
}

// workspaceThere finds the workspace in use, which must exist.
func (c *command) workspaceThere(loaded *config.Loaded) (string, error) {
	ws, err := app.Workspace(c.workspace, loaded)
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(ws); errors.Is(err, fs.ErrNotExist) {
		if c.workspace != "" {
			return "", usageError{fmt.Errorf("the workspace %s does not exist", ws)}
		}
		return "", usageError{noWorkspaceError{ws}}
	}
	return ws, nil
}

// openMemory opens the memory of the workspace in use, which must exist.
func (c *command) openMemory(ctx context.Context) (m *memoryOf, done func() error, err error) {
	loaded, err := config.Load(c.configOptions())
	if err != nil {
		return nil, nil, err
	}
	ws, err := c.workspaceThere(loaded)
	if err != nil {
		return nil, nil, err
	}
	sessions, err := c.openSessions(ctx, loaded, ws)
	if err != nil {
		return nil, nil, err
	}
	m = &memoryOf{workspace: ws, dir: memory.Dir(loaded.DataDir, sessions)}
	m.index, err = app.OpenSearch(loaded, ws, sessions, c.logger())
	if err := errors.Join(err, sessions.Close()); err != nil {
		return nil, nil, err
	}
	m.repo, err = memory.OpenRepo(memory.RepoOptions{Dir: m.dir, Workspace: ws, Log: c.logger()})
	if err != nil {
		return nil, nil, err
	}
	m.history, err = memory.OpenHistory(memory.HistoryOptions{Store: memory.Place(app.State(loaded, c.logger()), sessions), Workspace: ws, Log: c.logger()})
	if err != nil {
		return nil, nil, err
	}
	m.dream, err = memory.NewDream(memory.DreamOptions{
		History: m.history, Repo: m.repo, Log: c.logger(),
		Model: func(context.Context) (memory.DreamModel, error) {
			return memory.DreamModel{}, errors.New("this command does not call a model")
		},
	})
	if err != nil {
		return nil, nil, err
	}
	return m, func() error { return errors.Join(m.dream.Close(), m.history.Close(), m.index.Close()) }, nil
}

// withMemory runs fn with the memory of the workspace in use.
func (c *command) withMemory(ctx context.Context, fn func(*memoryOf) error) (err error) {
	m, done, err := c.openMemory(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	return fn(m)
}

// orNothing answers a question about the memory of a home that was never used:
// in words, or with what a program gets then.
func orNothing(cmd *cobra.Command, err error, asJSON bool, empty any, words string) error {
	if _, none := errors.AsType[noWorkspaceError](err); !none {
		return err
	}
	if asJSON {
		return writeJSON(cmd.OutOrStdout(), empty)
	}
	cmd.Println(words)
	return nil
}

// memoryFile finds the file a person means: USER, SOUL or MEMORY, with or
// without ending, of the owner or of a scope.
func (m *memoryOf) memoryFile(name, scope string) (string, error) {
	switch strings.ToUpper(strings.TrimSuffix(strings.ToLower(filepath.Base(name)), ".md")) {
	case "USER":
		if scope == "" {
			return "USER.md", nil
		}
	case "SOUL":
		if scope == "" {
			return "SOUL.md", nil
		}
	case "MEMORY":
		return m.scopeFile(scope)
	default:
		return "", usageError{fmt.Errorf("there is no memory file %q; it is USER, SOUL or MEMORY", name)}
	}
	return "", usageError{errors.New("a scope has only MEMORY")}
}

const scopesDir = "memory/scopes/"

// scopeFile is the file of a scope, given by its id or by the name of its folder.
func (m *memoryOf) scopeFile(scope string) (string, error) {
	file := memory.ScopeFile(scope)
	if scope == "" || m.there(file) {
		return file, nil
	}
	if folder := scopesDir + scope + "/MEMORY.md"; !strings.ContainsAny(scope, `/\`) && m.there(folder) {
		return folder, nil
	}
	return "", usageError{fmt.Errorf("there is no scope %q; nanobot memory show lists them", scope)}
}

func (m *memoryOf) there(file string) bool {
	_, err := m.repo.ReadWork(file)
	return err == nil
}

// shownFile is one file of memory show.
type shownFile struct {
	Path  string        `json:"path"`
	Bytes int           `json:"bytes"`
	Cap   int           `json:"cap"`
	Text  string        `json:"text"`
	Facts []memory.Fact `json:"facts,omitempty"` // with --why
}

// shownScope is the memory of another person or group.
type shownScope struct {
	Name  string `json:"name"`
	Bytes int    `json:"bytes"`
}

// shownMemory is memory show --json.
type shownMemory struct {
	Workspace  string           `json:"workspace"`
	Repository string           `json:"repository"`
	Files      []shownFile      `json:"files"`
	Scopes     []shownScope     `json:"scopes,omitempty"`
	Waiting    []memory.Held    `json:"waiting,omitempty"`
	History    shownHistory     `json:"history"`
	Last       *gitstore.Commit `json:"last_change,omitempty"`
	Dream      *gitstore.Commit `json:"last_dream,omitempty"`
	Unsaved    int              `json:"uncommitted_files"`
}

// shownHistory counts what was summarised.
type shownHistory struct {
	Entries int `json:"entries"`
	Unread  int `json:"unread"` // by Dream
}

func (c *command) memoryShow() *cobra.Command {
	var why, asJSON bool
	var scope string
	cmd := &cobra.Command{
		Use: "show", Short: "Print the memory files and their sources", Args: noArgs,
		Long: `show prints the memory files with their sizes, the findings from outside that wait
for your decision, and the last change. --why shows for each line who said it,
when and in which conversation. Memories of other people and groups are separate;
--scope shows one of them.`,
		Example: "  nanobot memory show\n  nanobot memory show --why\n  nanobot memory show --scope telegram:-100123/42\n  nanobot memory show --json | jq '.files[].bytes'",
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := c.withMemory(cmd.Context(), func(m *memoryOf) error {
				shown, err := m.show(cmd.Context(), scope, why)
				if err != nil {
					return err
				}
				if asJSON {
					return writeJSON(cmd.OutOrStdout(), shown)
				}
				printMemory(cmd.OutOrStdout(), shown, why)
				return nil
			})
			return orNothing(cmd, err, asJSON, shownMemory{Files: []shownFile{}}, nothingYet)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&why, "why", false, "show the source of each line")
	f.StringVar(&scope, "scope", "", "show the memory of this `person or group`")
	f.BoolVar(&asJSON, "json", false, "write JSON")
	return cmd
}

// nothingYet says what there is to see before anything happened.
const nothingYet = `Nothing is remembered yet. nanobot adds facts from your conversations (nanobot agent)
to USER.md, SOUL.md and MEMORY.md in the workspace over time. After nanobot onboard
you can also edit them yourself: nanobot memory edit`

// show collects what is remembered.
func (m *memoryOf) show(ctx context.Context, scope string, why bool) (out shownMemory, err error) {
	out.Workspace = m.workspace
	if out.Repository, err = m.repo.Path(); err != nil {
		return out, err
	}
	files := []string{"USER.md", "SOUL.md", "memory/MEMORY.md"}
	if scope != "" {
		file, err := m.scopeFile(scope)
		if err != nil {
			return out, err
		}
		files = []string{file}
	}
	for _, name := range files {
		data, err := m.repo.ReadWork(name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return out, err
		}
		f := shownFile{Path: name, Bytes: len(data), Cap: memory.MaxFile, Text: string(data)}
		if why {
			if f.Facts, err = m.dream.Why(ctx, name); err != nil {
				return out, err
			}
		}
		out.Files = append(out.Files, f)
	}
	if scope == "" {
		if err := m.showRest(ctx, &out); err != nil {
			return out, err
		}
	}
	return out, m.showChanges(ctx, &out)
}

// showRest adds what lies beside the owner's files.
func (m *memoryOf) showRest(ctx context.Context, out *shownMemory) error {
	names, err := m.repo.Names(ctx)
	if err != nil {
		return err
	}
	for _, name := range names {
		folder, ok := strings.CutPrefix(name, scopesDir)
		if !ok {
			continue
		}
		data, err := m.repo.ReadWork(name)
		if err != nil {
			continue // a link or worse; it is not read for anybody
		}
		out.Scopes = append(out.Scopes, shownScope{filepath.Dir(folder), len(data)})
	}
	if out.Waiting, err = m.dream.Quarantine(ctx); err != nil {
		return err
	}
	all, err := m.history.Since(ctx, 0)
	if err != nil {
		return err
	}
	read, err := m.history.DreamCursor(ctx)
	if err != nil {
		return err
	}
	out.History.Entries = len(all)
	for _, e := range all {
		if e.Cursor > read {
			out.History.Unread++
		}
	}
	return nil
}

// showChanges adds the last changes.
func (m *memoryOf) showChanges(ctx context.Context, out *shownMemory) error {
	log, err := m.repo.Log(ctx, 0)
	if err != nil {
		return err
	}
	if len(log) > 0 {
		out.Last = &log[0]
	}
	if i := slices.IndexFunc(log, func(c gitstore.Commit) bool { return strings.HasPrefix(c.Subject, "dream:") }); i >= 0 {
		out.Dream = &log[i]
	}
	change, err := m.repo.Diff(ctx, "", "")
	out.Unsaved = len(change.Files)
	return err
}

func printMemory(w io.Writer, m shownMemory, why bool) {
	for _, f := range m.Files {
		fmt.Fprintf(w, "== %s (%d of %d bytes)\n\n", f.Path, f.Bytes, f.Cap)
		switch {
		case strings.TrimSpace(f.Text) == "":
			fmt.Fprint(w, "(empty)\n\n")
		case why:
			printWhy(w, f)
		default:
			fmt.Fprintf(w, "%s\n\n", printable(strings.TrimRight(f.Text, "\n")))
		}
	}
	printWaiting(w, m.Waiting)
	for i, s := range m.Scopes {
		if i == 0 {
			fmt.Fprintln(w, "== Separate memories of other people and groups (--scope)")
		}
		fmt.Fprintf(w, "  %s  %d bytes\n", printable(s.Name), s.Bytes)
	}
	if len(m.Scopes) > 0 {
		fmt.Fprintln(w)
	}
	fmt.Fprintf(w, "Summaries of conversations: %d, not yet read by Dream: %d\n", m.History.Entries, m.History.Unread)
	commitLine(w, "Last Dream:", m.Dream)
	commitLine(w, "Last change:", m.Last)
	if m.Unsaved > 0 {
		fmt.Fprintf(w, "Changed since: %d %s; nanobot memory diff\n", m.Unsaved, plural(m.Unsaved, "file"))
	}
	fmt.Fprintf(w, "Earlier versions: %s\n", m.Repository)
}

func commitLine(w io.Writer, label string, c *gitstore.Commit) {
	if c == nil {
		fmt.Fprintf(w, "%s none\n", label)
		return
	}
	fmt.Fprintf(w, "%s %s %s %s\n", label, c.Time.Local().Format("2006-01-02 15:04"), gitstore.Short(c.ID), oneLine(printable(c.Subject), 80))
}

func plural(n int, word string) string {
	if n == 1 {
		return word
	}
	if rest, ok := strings.CutSuffix(word, "y"); ok {
		return rest + "ies"
	}
	return word + "s"
}

// printable makes what moves a cursor or reorders text visible; lines stay.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\t':
			return r
		case r < ' ':
			return 0x2400 + r
		case r == 0x7f:
			return 0x2421
		case unicode.Is(unicode.Cc, r), unicode.Is(unicode.Bidi_Control, r), r == 0x2028, r == 0x2029:
			return unicode.ReplacementChar
		}
		return r
	}, s)
}

// commitIDs completes ids of commits.
func (c *command) commitIDs(cmd *cobra.Command, args []string, typed string) (out []string, _ cobra.ShellCompDirective) {
	if len(args) > 1 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	err := c.withMemory(cmd.Context(), func(m *memoryOf) error {
		log, err := m.repo.Log(cmd.Context(), 50)
		for _, e := range log {
			if strings.HasPrefix(e.ID, typed) {
				out = append(out, gitstore.Short(e.ID)+"\t"+oneLine(e.Subject, 40))
			}
		}
		return err
	})
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

// editorOf is the program a person edits texts with.
func (c *command) editorOf() []string {
	return strings.Fields(cmp.Or(c.getenv("VISUAL"), c.getenv("EDITOR"), defaultEditor))
}
