package deliver_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/bus/journal"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/deliver"
)

// to makes something the answer to a message.
func to(message string, out bus.Outbound) bus.Outbound {
	out.Route.MessageID = message
	return out
}

// lasting is a platform that cannot erase.
type lasting struct{ *platform }

func (lasting) Erase(context.Context, bus.Route, string) error {
	return fmt.Errorf("erase: %w", errors.ErrUnsupported)
}

// long is a text of n parts.
func long(word string, n int) string {
	parts := make([]string, n)
	for i := range parts {
		parts[i] = strings.Repeat(fmt.Sprint(word, i+1, " "), 60/(len(word)+2))
	}
	return strings.TrimSpace(strings.Join(parts, "\n\n"))
}

// brief names texts by their first word.
func brief(events []event) (out []string) {
	for _, e := range settled(events) {
		word, _, _ := strings.Cut(e.Text, " ")
		out = append(out, strings.TrimSpace(fmt.Sprint(e.What, " ", e.ID, " ", word)))
	}
	return out
}

// What shows a growing text is changed by the next process, not sent again.
func TestTakeOver(t *testing.T) {
	t.Parallel()
	failed := to("q", final("f", "c", "Sorry"))
	failed.Turn = &bus.Turn{Error: "Sorry"}
	notice := to("q", final("f", "c", "Restarted"))
	notice.Plain = true
	void := to("q", end("c", "s1", true))
	void.Void = true
	gone := func(what string, _ bus.Outbound) error {
		if strings.HasSuffix(what, "edit") {
			return chat.Permanent(errors.New("message to edit not found"))
		}
		return nil
	}
	half := []bus.Outbound{to("q", delta("c", "s1", "Half"))}
	for name, test := range map[string]struct {
		before  []bus.Outbound // the first process gets
		after   []bus.Outbound // the second one gets
		refuse  func(string, bus.Outbound) error
		lasting bool
		want    []string
	}{
		"the stream goes on": {
			before: half,
			after:  []bus.Outbound{to("q", delta("c", "s2", "Al")), to("q", delta("c", "s2", "l of it")), to("q", end("c", "s2", false)), to("q", final("f", "c", "All of it"))},
			want:   []string{"send m1 Half", "edit m1 Al", "final edit m1 All"},
		},
		"only the final": {
			before: half, after: []bus.Outbound{to("q", final("f", "c", "Whole"))},
			want: []string{"send m1 Half", "final edit m1 Whole"},
		},
		"the final waited already": {
			before: append(half[:1:1], to("q", end("c", "s1", false))), after: []bus.Outbound{to("q", final("f", "c", "Whole"))},
			want: []string{"send m1 Half", "final edit m1 Half", "final edit m1 Whole"},
		},
		"broken off": {
			before: append(half[:1:1], void), after: []bus.Outbound{to("q", final("f", "c", "Whole"))},
			want: []string{"send m1 Half", "final edit m1 Whole"},
		},
		"more parts": {
			before: half, after: []bus.Outbound{to("q", final("f", "c", long("new", 3)))},
			want: []string{"send m1 Half", "final edit m1 new1", "send m2 new2", "send m3 new3"},
		},
		"more parts by a stream": {
			before: half, after: []bus.Outbound{to("q", delta("c", "s2", long("new", 2))), to("q", end("c", "s2", false)), to("q", final("f", "c", long("new", 3)))},
			want: []string{"send m1 Half", "final edit m1 new1", "send m2 new2", "final edit m2 new2", "send m3 new3"},
		},
		"fewer parts": {
			before: []bus.Outbound{to("q", delta("c", "s1", long("old", 3)))}, after: []bus.Outbound{to("q", final("f", "c", "Short"))},
			want: []string{"send m1 old1", "send m2 old2", "send m3 old3", "final edit m1 Short", "erase m2", "erase m3"},
		},
		"fewer parts that have to stay": {
			before: []bus.Outbound{to("q", delta("c", "s1", long("old", 2)))}, after: []bus.Outbound{to("q", final("f", "c", "Short"))}, lasting: true,
			want: []string{"send m1 old1", "send m2 old2", "final edit m1 Short"},
		},
		"fewer parts of a text before tools": {
			before: []bus.Outbound{to("q", delta("c", "s1", long("old", 2)))},
			after:  []bus.Outbound{to("q", delta("c", "s2", "Let me look")), to("q", end("c", "s2", true)), to("q", final("f", "c", "Found"))},
			want:   []string{"send m1 old1", "send m2 old2", "final edit m1 Let", "erase m2", "send m3 Found"},
		},
		"the final finds nothing to change": {
			before: []bus.Outbound{to("q", delta("c", "s1", long("old", 2)))}, after: []bus.Outbound{to("q", final("f", "c", "Whole"))}, refuse: gone,
			want: []string{"send m1 old1", "send m2 old2", "erase m1", "erase m2", "send m3 Whole"},
		},
		"the stream finds nothing to change": {
			before: half, after: []bus.Outbound{to("q", delta("c", "s2", "Again"))}, refuse: gone,
			want: []string{"send m1 Half", "erase m1", "send m2 Again"},
		},
		"an error leaves what was read": {
			before: half, after: []bus.Outbound{failed},
			want: []string{"send m1 Half", "send m2 Sorry"},
		},
		"a notice leaves what was read": {
			before: half, after: []bus.Outbound{notice},
			want: []string{"send m1 Half", "send m2 Restarted"},
		},
		"said by other means": {
			before: half, after: []bus.Outbound{to("q", final("f", "c", ""))},
			want: []string{"send m1 Half"},
		},
		"the turn had gone on": {
			before: append(half[:1:1], to("q", end("c", "s1", true))), after: []bus.Outbound{to("q", delta("c", "s2", "Next")), to("q", final("f", "c", "Next one"))},
			want: []string{"send m1 Half", "final edit m1 Half", "send m2 Next", "final edit m2 Next"},
		},
		"answered already": {
			before: append(half[:1:1], to("q", final("f", "c", "Whole"))), after: []bus.Outbound{to("q", final("g", "c", "More"))},
			want: []string{"send m1 Half", "final edit m1 Whole", "send m2 More"},
		},
		"another message and another chat": {
			before: half,
			after:  []bus.Outbound{to("other", final("g", "c", "Status")), to("q", final("h", "d", "There")), to("q", delta("c", "s2", "Al")), to("third", final("i", "c", "Third")), to("q", final("f", "c", "All"))},
			want:   []string{"send m1 Half", "send m2 Status", "send m3 There", "edit m1 Al", "send m4 Third", "final edit m1 All"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				p := streaming()
				r := newRig(t, map[string]*platform{"a": p}, func(o *deliver.Options) {
					if test.lasting {
						o.Drivers["a"] = chat.Driver{New: func(d chat.Deps, _ json.RawMessage) (chat.Channel, error) { p.deps = d; return lasting{p}, nil }}
					}
				})
				feed := func(outs []bus.Outbound) {
					for _, o := range outs {
						r.publish(o)
						if o.Kind == bus.Delta {
							time.Sleep(3 * time.Second)
						}
					}
					time.Sleep(time.Minute)
				}
				feed(test.before)
				r.kill()
				p.fail = test.refuse
				feed(test.after)
				diff(t, "the platform saw", brief(p.saw("send", "edit", "final edit", "erase")), test.want)
				r.end()
				if n := r.undelivered(); n != 0 {
					t.Errorf("%d messages are left", n)
				}
			})
		})
	}
}

// However often the process dies, there is one message.
func TestTakeOverAgainAndAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := streaming()
		r := newRig(t, map[string]*platform{"a": p})
		for i := range 5 {
			r.publish(to("q", delta("c", fmt.Sprint("s", i), fmt.Sprint("Try ", i))))
			time.Sleep(3 * time.Second)
			r.kill()
		}
		r.publish(to("q", final("f", "c", "Done")))
		if got := p.saw("send"); len(got) != 1 {
			t.Errorf("sent %v, want one message", got)
		}
		diff(t, "last", lines(p.saw("final edit")), []string{"final edit m1 Done"})
	})
}

// A process that ends in order after the platform refused the last change
// leaves that to the next one, also in the middle of a long answer.
func TestTakeOverUnfinishedAnswer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := streaming()
		var block atomic.Value
		block.Store("")
		p.fail = func(_ string, out bus.Outbound) error {
			if b, _ := block.Load().(string); b != "" && strings.HasPrefix(out.Text, b) {
				return errors.New("server error")
			}
			return nil
		}
		r := newRig(t, map[string]*platform{"a": p})
		r.publish(to("q", delta("c", "s", "wor")))
		block.Store("word1")
		r.publish(to("q", delta("c", "s", "d")), to("q", end("c", "s", false)), to("q", final("f", "c", long("word", 3))))
		r.end()
		block.Store("word3") // the second process gets further
		r.begin()
		time.Sleep(10 * time.Second)
		r.kill()
		block.Store("")
		time.Sleep(time.Minute)
		diff(t, "the platform saw", brief(p.saw("send", "edit", "final edit")), []string{
			"send m1 wor", "final edit m1 word", "final edit m1 word1", "send m2 word2", "send m3 word3",
		})
	})
}

// A turn that is done again by the same process, because its agent was
// replaced, shows its answer in the same message.
func TestTakeOverWithinProcess(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := streaming()
		r := newRig(t, map[string]*platform{"a": p})
		r.publish(to("q", delta("c", "s1", "Half")), to("q", end("c", "s1", false)))
		time.Sleep(3 * time.Second)
		r.publish(to("q", delta("c", "s2", "Who")))
		time.Sleep(3 * time.Second)
		r.publish(to("q", delta("c", "s2", "le")), to("q", end("c", "s2", false)), to("q", final("f", "c", "Whole")))
		// Between two words there may be time to show one, or not.
		saw := brief(p.saw("send", "edit", "final edit"))
		if len(p.saw("send")) != 1 || !slices.Contains(saw, "edit m1 Who") || saw[len(saw)-1] != "final edit m1 Whole" {
			t.Errorf("the platform saw %q", saw)
		}
	})
}

// What looked like the last text of a turn stays when the turn goes on.
func TestTextStaysWhenTurnGoesOn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := streaming()
		r := newRig(t, map[string]*platform{"a": p})
		r.publish(to("q", delta("c", "s1", "One")), to("q", end("c", "s1", false)), to("q", end("c", "s1", true)))
		time.Sleep(3 * time.Second)
		r.publish(to("q", delta("c", "s2", "Two")))
		time.Sleep(3 * time.Second)
		r.publish(to("q", end("c", "s2", false)), to("q", final("f", "c", "Two")))
		last := map[string]string{}
		for _, e := range p.saw("send", "edit", "final edit") {
			last[e.ID] = e.Text
		}
		if len(last) != 2 || last["m1"] != "One" || last["m2"] != "Two" {
			t.Errorf("the chat shows %q", last)
		}
	})
}

// counting counts what is noted.
type counting struct {
	*journal.Journal
	shown []string
}

func (c *counting) Shown(ctx context.Context, to bus.Route, ids []string) error {
	c.shown = append(c.shown, strings.Join(ids, " "))
	return c.Journal.Shown(ctx, to, ids)
}

// A turn costs a note for each message, however often it is edited.
func TestShownIsNotedOncePerMessage(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := streaming()
		count := &counting{}
		r := newRig(t, map[string]*platform{"a": p})
		r.end()
		r.wrap = func(q *journal.Journal) bus.Queue { count.Journal = q; return count }
		r.begin()
		for range 20 {
			r.publish(to("q", delta("c", "s1", "text ")))
			time.Sleep(time.Second)
		}
		r.publish(to("q", end("c", "s1", true)), to("q", delta("c", "s2", "It is ")))
		time.Sleep(3 * time.Second)
		r.publish(to("q", delta("c", "s2", "four.")), to("q", end("c", "s2", false)), to("q", final("f", "c", "It is four.")))
		diff(t, "notes", count.shown, []string{"m1", "m1 m2", "", "m3"})
	})
}
