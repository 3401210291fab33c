package nanobot_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
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

// parrot is a model that is not one: it repeats the last words.
func parrot(_ context.Context, req nanobot.ModelRequest) iter.Seq2[nanobot.ModelEvent, error] {
	return func(yield func(nanobot.ModelEvent, error) bool) {
		said, _, _ := strings.Cut(req.Messages[len(req.Messages)-1].Content.String(), "\n")
		yield(nanobot.ModelAnswer("You said: "+said), nil)
	}
}

// home is an empty folder for one example.
func home() (opts []nanobot.Option, done func()) {
	dir, err := os.MkdirTemp("", "nanobot-example-")
	if err != nil {
		panic(err)
	}
	return []nanobot.Option{
		nanobot.WithEnv([]string{"NANOBOT_HOME=" + dir}), nanobot.WithWorkspace(dir + "/work"),
		nanobot.WithModel(nanobot.ModelFunc(parrot)),
	}, func() { _ = os.RemoveAll(dir) }
}

// must keeps the examples short.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// post sends a question the way programs made for OpenAI do.
func post(url, question string) string {
	body := fmt.Sprintf(`{"messages":[{"role":"user","content":%q}]}`, question)
	resp, err := http.Post(url+"/v1/chat/completions", "application/json", strings.NewReader(body)) //nolint:noctx,forbidigo // an example does what any program would
	must(err)
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	must(err)
	var answer struct {
		Choices []struct {
			Message struct{ Content string }
		}
	}
	if json.Unmarshal(data, &answer) != nil || len(answer.Choices) == 0 {
		return resp.Status + " " + string(data)
	}
	return answer.Choices[0].Message.Content
}

// A gateway inside another program, which has a web server already.
func ExampleNewGateway() {
	opts, done := home()
	defer done()
	ctx, stop := context.WithCancel(context.Background())

	opts = append(opts, nanobot.WithoutListener())
	gateway, err := nanobot.NewGateway(ctx, opts...)
	must(err)

	mux := http.NewServeMux()
	mux.Handle("/ai/", http.StripPrefix("/ai", gateway.Handler()))
	server := httptest.NewServer(mux)
	defer server.Close()

	served := make(chan error, 1)
	go func() { served <- gateway.Serve(ctx) }()

	res, err := gateway.Run(ctx, nanobot.Input{Text: "hello"})
	must(err)
	fmt.Println(res.Text)
	fmt.Println(post(server.URL+"/ai", "hello by HTTP"))

	stop()
	fmt.Println(<-served)
	// Output:
	// You said: hello
	// You said: hello by HTTP
	// <nil>
}

// desk is a chat platform in memory: what is typed comes in, what is sent
// comes out.
type desk struct {
	deps  nanobot.ChannelDeps
	typed chan string
	sent  chan string
}

func (d *desk) Name() string              { return d.deps.Name }
func (d *desk) Caps() nanobot.ChannelCaps { return nanobot.ChannelCaps{MaxChars: 1000} }

func (d *desk) Run(ctx context.Context, submit nanobot.Submit) error {
	d.deps.Ready("front desk", nil)
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return nil
		case text := <-d.typed:
			pass, ok := d.deps.Gate.Admit(ctx, nanobot.Visitor{
				Route: nanobot.Route{Channel: d.deps.Name, ChatID: "1"}, IDs: []string{"guest"}, Direct: true,
			})
			if !ok {
				continue // the gate has told them how to get in
			}
			msg := pass.Inbound(fmt.Sprint(n), text)
			msg.Untrusted = false // they typed it themselves; words of others go to msg.Quoted
			if err := submit(ctx, msg); err != nil {
				return err
			}
		}
	}
}

func (d *desk) Send(_ context.Context, out nanobot.Event) (id string, err error) {
	d.sent <- out.Text
	return "", nil
}

// A chat platform of your own needs three methods and a section of the
// configuration that switches it on.
func ExampleWithChannel() {
	opts, done := home()
	defer done()
	ctx, stop := context.WithCancel(context.Background())

	typed, sent := make(chan string), make(chan string, 10)
	opts = append(opts, nanobot.WithoutListener(),
		nanobot.WithSetting("channels.desk.enabled", "true"),
		nanobot.WithSetting("channels.desk.allowFrom", `["guest"]`),
		nanobot.WithChannel("desk", nanobot.ChannelDriver{
			Title: "Desk",
			New: func(d nanobot.ChannelDeps, section json.RawMessage) (nanobot.Channel, error) {
				var s nanobot.ChannelSection
				return &desk{d, typed, sent}, nanobot.DecodeSection(section, &s)
			},
		}))
	gateway, err := nanobot.NewGateway(ctx, opts...)
	must(err)
	served := make(chan error, 1)
	go func() { served <- gateway.Serve(ctx) }()

	typed <- "is anybody there?"
	fmt.Println(<-sent)

	must(gateway.Send(ctx, nanobot.Route{Channel: "desk", ChatID: "1"}, "We close in ten minutes."))
	fmt.Println(<-sent)

	stop()
	fmt.Println(<-served)
	// Output:
	// You said: is anybody there?
	// We close in ten minutes.
	// <nil>
}

// The OpenAI-compatible API of an agent, without a gateway.
func ExampleBot_Handler() {
	opts, done := home()
	defer done()
	bot, err := nanobot.New(context.Background(), opts...)
	must(err)
	defer bot.Close()

	handler, err := bot.Handler()
	must(err)
	server := httptest.NewServer(handler)
	defer server.Close()
	fmt.Println(post(server.URL, "what is the time?"))
	// Output: You said: what is the time?
}

// Conversations can be listed, read and put away.
func ExampleBot_Sessions() {
	opts, done := home()
	defer done()
	ctx := context.Background()
	bot, err := nanobot.New(ctx, opts...)
	must(err)
	defer bot.Close()
	_, err = bot.Run(ctx, nanobot.Input{Text: "remember the milk", Session: "notes:1"})
	must(err)

	list, err := bot.Sessions().List(ctx)
	must(err)
	for _, s := range list {
		fmt.Println(s.Key, s.Messages)
	}
	for said, err := range bot.Sessions().History(ctx, "notes:1") {
		must(err)
		fmt.Println(said.Role+":", said.Text)
	}
	must(bot.Sessions().Delete(ctx, "notes:1"))
	fmt.Println(errors.Is(bot.Sessions().Delete(ctx, "notes:1"), nanobot.ErrNoSession))
	// Output:
	// notes:1 2
	// user: remember the milk
	// assistant: You said: remember the milk
	// true
}

// Hooks watch every turn; BeforeTool can refuse a call.
func ExampleWithHooks() {
	opts, done := home()
	defer done()
	ctx := context.Background()

	caller := func(_ context.Context, req nanobot.ModelRequest) iter.Seq2[nanobot.ModelEvent, error] {
		return func(yield func(nanobot.ModelEvent, error) bool) {
			last := req.Messages[len(req.Messages)-1]
			if last.ToolCallID != "" {
				yield(nanobot.ModelAnswer("The tool said: "+last.Content.String()), nil)
				return
			}
			yield(nanobot.ModelAnswer("", nanobot.ModelCall{ID: "1", Name: "list_dir", Arguments: `{"path":"."}`}), nil)
		}
	}
	opts = append(opts, nanobot.WithModel(nanobot.ModelFunc(caller)), nanobot.WithHooks(nanobot.Hooks{
		BeforeTool: func(_ context.Context, c nanobot.ToolCall) error {
			return fmt.Errorf("%s is closed today", c.Name)
		},
	}))
	bot, err := nanobot.New(ctx, opts...)
	must(err)
	defer bot.Close()
	res, err := bot.Run(ctx, nanobot.Input{Text: "what is here?"})
	must(err)
	fmt.Println(strings.Contains(res.Text, "list_dir is closed today"))
	// Output: true
}

// A job of the workspace, which a gateway runs at its time.
func ExampleCron() {
	opts, done := home()
	defer done()
	ctx := context.Background()
	bot, err := nanobot.New(ctx, opts...)
	must(err)
	defer bot.Close()

	chat := nanobot.Route{Channel: "telegram", ChatID: "42"}
	added, err := bot.Cron().Add(ctx, nanobot.JobDraft{
		Name: "mail", Message: "Check my mail", Timing: nanobot.OnCron("0 8 * * 1-5", "Europe/Berlin"), Route: chat,
	})
	must(err)
	_, err = bot.Cron().Enable(ctx, added.Job.ID, false)
	must(err)
	jobs, err := bot.Cron().List(ctx)
	must(err)
	for _, j := range jobs {
		fmt.Println(j.Name, j.Payload.Message, j.Enabled)
	}
	must(bot.Cron().Remove(ctx, added.Job.ID))
	fmt.Println(errors.Is(bot.Cron().Run(ctx, added.Job.ID), nanobot.ErrNoJob))

	deploy, err := bot.Triggers().Add(ctx, "deploy", chat, "")
	must(err)
	_, err = bot.Triggers().Fire(ctx, deploy.ID, "version 7 is out")
	must(err)
	// Output:
	// mail Check my mail false
	// true
}

// What the agent remembers.
func ExampleMemory() {
	opts, done := home()
	defer done()
	ctx := context.Background()
	bot, err := nanobot.New(ctx, opts...)
	must(err)
	defer bot.Close()

	must(bot.Memory().Write(ctx, nanobot.Facts, "- The spare key is under the blue pot.\n"))
	facts, err := bot.Memory().Read(ctx, nanobot.Facts)
	must(err)
	fmt.Print(facts)
	must(bot.Memory().Append(ctx, "Moved to Oslo."))
	entries, err := bot.Memory().History(ctx, 10)
	must(err)
	for _, e := range entries {
		fmt.Println(e.Content)
	}
	// Output:
	// - The spare key is under the blue pot.
	// Moved to Oslo.
}

// What the agent remembers can be explained and forgotten for good.
func ExampleMemory_Forget() {
	opts, done := home()
	defer done()
	ctx := context.Background()
	bot, err := nanobot.New(ctx, opts...)
	must(err)
	defer bot.Close()
	must(bot.Memory().Write(ctx, nanobot.AboutUser, "- phone 555-0100\n- has a cat\n"))

	facts, err := bot.Memory().Why(ctx, nanobot.AboutUser)
	must(err)
	for _, f := range facts {
		fmt.Println(f.Text, f.Explain())
	}
	forgotten, err := bot.Memory().Forget(ctx, "555-0100")
	must(err)
	fmt.Println(forgotten.Removed[0])

	about, err := bot.Memory().Read(ctx, nanobot.AboutUser)
	must(err)
	fmt.Print(about)
	// Output:
	// - phone 555-0100 [written by hand]
	// - has a cat [written by hand]
	// 1 line from USER.md
	// - has a cat
}

// Ask takes a message with everything that a user interface knows of it.
func ExampleBot_Ask() {
	opts, done := home()
	defer done()
	ctx := context.Background()
	bot, err := nanobot.New(ctx, opts...)
	must(err)
	defer bot.Close()

	msg := nanobot.Inbound{
		Route: nanobot.Route{Channel: "desk", ChatID: "7"}, SenderID: "ana", Text: "hello", OwnTurn: true,
	}
	for ev, err := range bot.Ask(ctx, msg) {
		must(err)
		if ev.Kind == nanobot.Final {
			fmt.Println(ev.Text)
		}
	}
	// Output: You said: hello
}

// What can this model do? A parrot writes words and calls no tools.
func ExampleTryModel() {
	opts, done := home()
	defer done()

	trial, err := nanobot.TryModel(context.Background(), "parrot", opts...)
	must(err)
	for _, v := range trial.Verdicts {
		fmt.Println(v.Ability, v.Result)
	}
	// Output:
	// text yes
	// streaming no
	// tools no
	// vision skipped
}

// A recorded turn runs again without a model.
func ExampleReplay() {
	opts, done := home()
	defer done()
	ctx := context.Background()
	file := filepath.Join(os.TempDir(), fmt.Sprintf("nanobot-example-%d.jsonl", os.Getpid()))
	defer os.Remove(file)
	bot, err := nanobot.New(ctx, append(opts, nanobot.WithRecording(file))...)
	must(err)
	_, err = bot.Run(ctx, nanobot.Input{Text: "hello"})
	must(err)
	must(bot.Close())

	replayed, err := nanobot.Replay(ctx, file)
	must(err)
	fmt.Println(len(replayed.Turns), "turn,", len(replayed.Differences), "differences")
	// Output: 1 turn, 0 differences
}
