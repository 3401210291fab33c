package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/datadir"
	"github.com/nanobot-go/nanobot/internal/base/store"
	"github.com/nanobot-go/nanobot/internal/run/app"
	"github.com/nanobot-go/nanobot/internal/run/config"
)

// folders chooses the folder that a conversation of the terminal works in.
type folders struct {
	*console
	home *home
}

// here returns the folder that nanobot agent, started as this command, works in; "" is the
// workspace. The note says why it is not the folder of the start.
func (f *folders) here(ctx context.Context) (folder, note string) {
	l, ws, err := f.home.inUse()
	if err != nil {
		return "", ""
	}
	folder, note, err = f.choose(ctx, l, ws, false)
	if err != nil {
		return "", ""
	}
	return folder, note
}

// choose returns the folder that the call was made in; "" is the workspace, and the
// note says why if the user should know. About the home folder it may ask.
func (f *folders) choose(ctx context.Context, l *config.Loaded, ws string, ask bool) (dir, note string, err error) {
	if f.Dir == "" || f.home.workspace != "" {
		return "", "", nil
	}
	if dir, err = filepath.EvalSymlinks(f.Dir); err != nil {
		return "", "", fmt.Errorf("the working folder cannot be used: %w", err)
	}
	if target, err := filepath.EvalSymlinks(ws); err == nil && target == dir {
		return "", "", nil
	}

	own, _ := filepath.EvalSymlinks(f.userHome()) // unknown counts as no folder
	switch dir {
	case filepath.VolumeName(dir) + string(filepath.Separator):
		return "", f.in("nanobot does not work in the root folder. This conversation works in the workspace %s.", ws), nil
	case own:
	default:
		return dir, "", nil
	}

	allowed, known := f.homeAllowed(ctx, l)
	prompt := f.prompter()
	if !known && ask && prompt.terminal() {
		fmt.Fprintln(f.Out, f.in("You started nanobot in your home folder. It can work in all of it (keys and nanobot's own data stay hidden), or in its workspace."))
		answer, err := prompt.line(f.in("Work in the whole home folder? (yes/no)"), "no")
		if err != nil && !errors.Is(err, errSkipped) {
			return "", "", err
		}

		allowed, known = strings.HasPrefix(strings.ToLower(answer), "y"), true
		if err := f.allowHome(ctx, l, allowed); err != nil {
			return "", "", err
		}
	}

	switch {
	case allowed:
		return dir, "", nil
	case known:
		return "", "", nil
	}
	return "", f.in("Started in the home folder: this conversation works in the workspace %s. Change to a project folder first, or run nanobot agent in a terminal to be asked.", ws), nil
}

// folderAnswers holds what the user said about folders that are asked about once.
type folderAnswers struct {
	Home *bool `json:"home,omitempty"`
}

func (f *folders) homeAllowed(ctx context.Context, l *config.Loaded) (allowed, known bool) {
	data, _, err := app.State(l, f.home.logger()).Doc(ctx, string(datadir.Folders))
	var a folderAnswers
	if err != nil || json.Unmarshal(data, &a) != nil || a.Home == nil {
		return false, false
	}
	return *a.Home, true
}

func (f *folders) allowHome(ctx context.Context, l *config.Loaded, yes bool) error {
	data, err := json.Marshal(folderAnswers{Home: &yes})
	if err != nil {
		return err
	}
	_, err = app.State(l, f.home.logger()).Put(ctx, string(datadir.Folders), append(data, '\n'), store.Any, true)
	return err
}
