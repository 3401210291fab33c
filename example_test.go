package nanobot_test

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/nanobot-go/nanobot"
)

// A bot works without any configuration; here in a folder of its own and with
// the built-in demo model.
func Example() {
	dir, err := os.MkdirTemp("", "nanobot-example-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	bot, err := nanobot.New(ctx, nanobot.WithEnv([]string{"NANOBOT_HOME=" + dir}), nanobot.WithWorkspace(dir+"/work"))
	if err != nil {
		panic(err)
	}
	defer bot.Close()
	res, err := bot.Run(ctx, nanobot.Input{Text: `write "hello" to greeting.txt then read greeting.txt`})
	if err != nil {
		panic(err)
	}
	fmt.Println(res.Turn.Tools)
	fmt.Println(strings.Contains(res.Text, "hello"))
	// Output:
	// [write_file read_file]
	// true
}

type rollInput struct {
	Sides int `json:"sides" min:"2" max:"100" desc:"number of sides"`
}

// Tools are typed functions; their schema comes from the struct.
func ExampleNewTool() {
	roll := nanobot.NewTool(nanobot.Tool{Name: "roll", Description: "Roll a die", ReadOnly: true},
		func(_ context.Context, _ nanobot.ToolCall, in rollInput) (nanobot.ToolResult, error) {
			return nanobot.ToolText(fmt.Sprintf("rolled a %d-sided die: 4", in.Sides)), nil
		})
	fmt.Println(string(roll.Schema))
	// Output: {"type":"object","properties":{"sides":{"type":"integer","description":"number of sides","minimum":2,"maximum":100}},"required":["sides"]}
}

// Stream shows an answer while it is written.
func ExampleBot_Stream() {
	dir, err := os.MkdirTemp("", "nanobot-example-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	bot, err := nanobot.New(ctx, nanobot.WithEnv([]string{"NANOBOT_HOME=" + dir}), nanobot.WithWorkspace(dir+"/work"))
	if err != nil {
		panic(err)
	}
	defer bot.Close()
	var shown strings.Builder
	for ev, err := range bot.Stream(ctx, nanobot.Input{Text: "what can you do?"}) {
		if err != nil {
			panic(err)
		}
		switch ev.Kind {
		case nanobot.Delta:
			shown.WriteString(ev.Text)
		case nanobot.Final:
			fmt.Println(ev.Streamed, strings.TrimSpace(ev.Text) == strings.TrimSpace(shown.String()))
		}
	}
	// Output: true true
}
