package email

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/emersion/go-imap/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/bus"
)

func TestReceive(t *testing.T) {
	t.Parallel()
	r := newRig(t, newProvider(t, serverOptions{}), nil)
	r.deliver(letterOf(1, "Hello", "How are you?\n\nOn Sat, 14 Nov 2026 at 10:00, Bot <bot@example.org> wrote:\n> old\n> words\n"))
	got := r.mustOnce()
	if len(got) != 1 {
		t.Fatalf("%d messages, want 1; log:\n%s", len(got), r.Log)
	}
	in := got[0]
	want := "[EMAIL-CONTEXT]\nFrom: Ann Example <ann@friends.example>\nSubject: Hello\nDate: Sun, 15 Nov 2026 08:00:00 +0000\n\nHow are you?"
	if in.Text != want {
		t.Errorf("text is %q, want %q", in.Text, want)
	}
	if in.Route.ChatID != owner || in.SenderID != owner || in.Scope != "" || in.Untrusted || !in.Interactive || in.SessionKey != "" {
		t.Errorf("the owner's mail is %+v", in)
	}
	wantMeta := map[string]string{
		"message_id": "<1@friends.example>", "subject": "Hello", "date": "Sun, 15 Nov 2026 08:00:00 +0000", "sender_email": owner,
		"uid": "1", "verified": "true", "references": "<1@friends.example>",
	}
	if diff := cmp.Diff(wantMeta, in.Meta); diff != "" {
		t.Errorf("meta (-want +got):\n%s", diff)
	}
	if all, unseen := r.counts("INBOX"); all != 1 || unseen != 0 {
		t.Errorf("%d mails, %d unread, want 1 and 0", all, unseen)
	}
}

// A mail is marked as read only when the message is durable.
func TestSeenAfterSubmit(t *testing.T) {
	t.Parallel()
	r := newRig(t, newProvider(t, serverOptions{}), nil)
	r.deliver(letterOf(1, "a", "one"))
	r.deliver(letterOf(2, "b", "two"))
	r.Refuse(errors.New("disk full"))
	if err := r.once(); err == nil || !strings.Contains(err.Error(), "disk full") {
		t.Fatalf("error is %v, want the one of submit", err)
	}
	if _, unseen := r.counts("INBOX"); unseen != 2 {
		t.Fatalf("%d unread, want 2: nothing is durable", unseen)
	}
	r.Refuse(nil)
	if got := r.mustOnce(); len(got) != 2 || !strings.HasSuffix(got[0].Text, "one") || !strings.HasSuffix(got[1].Text, "two") {
		t.Errorf("got %+v, want both in order", got)
	}
	if _, unseen := r.counts("INBOX"); unseen != 0 {
		t.Errorf("%d unread, want 0", unseen)
	}
}

// With markSeen off the place in the mailbox keeps mails from coming twice,
// also after a restart.
func TestPlaceIsKept(t *testing.T) {
	t.Parallel()
	off := map[string]any{"markSeen": false, "verifyDkim": false, "verifySpf": false}
	r := newRig(t, newProvider(t, serverOptions{}), off)
	noID := strings.Replace(letterOf(1, "a", "one"), "Message-ID: <1@friends.example>\n", "", 1)
	r.deliver(noID)
	r.mustOnce()
	r.Forget()
	r.reopen(off)
	if got := r.mustOnce(); len(got) != 0 {
		t.Errorf("%d messages again", len(got))
	}
	if _, unseen := r.counts("INBOX"); unseen != 1 {
		t.Errorf("%d unread, want 1: markSeen is off", unseen)
	}
	r.deliver(letterOf(2, "b", "two"))
	if got := r.mustOnce(); len(got) != 1 || !strings.HasSuffix(got[0].Text, "two") {
		t.Errorf("got %+v, want the new one", got)
	}
}

// A mailbox that was numbered anew is read again, and what the queue has seen
// of a proven sender has the same id.
func TestNewValidity(t *testing.T) {
	t.Parallel()
	r := newRig(t, newProvider(t, serverOptions{}), map[string]any{"markSeen": false})
	r.deliver(letterOf(1, "a", "one"))
	first := r.mustOnce()[0]
	r.facts.saved.Validity += 7
	r.Forget()
	again := r.mustOnce()
	if len(again) != 1 || again[0].ID != first.ID {
		t.Errorf("got %+v, want the same id %s", again, first.ID)
	}
}

func TestPassedOver(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, change, to string
		seen             bool
	}{
		{"stranger", "From: Ann Example <ann@friends.example>", "From: eve@elsewhere.example", false},
		{"our own", "From: Ann Example <ann@friends.example>", "From: Bot <BOT@example.org>", true},
		{"automatic", "Subject: x", "Auto-Submitted: auto-replied (vacation)\nSubject: x", false},
		{"automatic by its subject", "Subject: x", "Subject: Out of office: Re: x", false},
		{"automatic in Chinese", "Subject: x", "Subject: =?utf-8?b?6Ieq5Yqo5Zue5aSN?=: x", false},
		{"bulk", "Subject: x", "Precedence: Bulk\nSubject: x", false},
		{"list", "Subject: x", "List-Id: <l.example.org>\nSubject: x", false},
		{"bounce", "Subject: x", "Return-Path: <>\nSubject: x", false},
		{"report", "Subject: x", "Content-Type: multipart/report; boundary=a\nSubject: x", false},
		{"daemon", "From: Ann Example <ann@friends.example>", "From: MAILER-DAEMON@friends.example", false},
		{"two senders", "Subject: x", "From: eve@elsewhere.example\nSubject: x", false},
		{"sender list", "From: Ann Example <ann@friends.example>", "From: ann@friends.example, eve@elsewhere.example", false},
		{"no sender", "From: Ann Example <ann@friends.example>\n", "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, newProvider(t, serverOptions{}), nil)
			r.deliver(strings.Replace(letterOf(1, "x", "hi"), c.change, c.to, 1))
			if got := r.mustOnce(); len(got) != 0 {
				t.Errorf("the agent got %+v", got)
			}
			if _, unseen := r.counts("INBOX"); (unseen == 0) != c.seen {
				t.Errorf("%d unread, want seen %v", unseen, c.seen)
			}
			if len(r.Said()) != 0 {
				t.Errorf("somebody got an answer: %+v", r.Said())
			}
			if len(r.mails()) != 0 {
				t.Error("a mail was sent")
			}
		})
	}
}

func TestAllowListIgnoresCase(t *testing.T) {
	t.Parallel()
	r := newRig(t, newProvider(t, serverOptions{}), map[string]any{"allowFrom": []string{"Ann@Friends.example"}})
	r.deliver(letterOf(1, "x", "hi"))
	if got := r.mustOnce(); len(got) != 1 || got[0].Scope != "" || got[0].Route.ChatID != owner {
		t.Errorf("got %+v, want the owner's mail", got)
	}
}

func TestAttachments(t *testing.T) {
	t.Parallel()
	r := newRig(t, newProvider(t, serverOptions{}), map[string]any{"allowedAttachmentTypes": []string{"image/*", "text/plain"}, "maxAttachmentSize": 20, "maxAttachmentsPerEmail": 2})
	body := strings.Replace(letterOf(1, "files", ""), "\n\n\n", "\nMIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=b\n\n", 1) +
		"--b\nContent-Type: text/plain\n\nSee files.\n" +
		"--b\nContent-Type: image/png; name=\"../../../etc/passwd\"\nContent-Transfer-Encoding: base64\n\niVBORw0KGgo=\n" +
		"--b\nContent-Type: application/pdf\nContent-Disposition: attachment; filename=a.pdf\n\n%PDF\n" +
		"--b\nContent-Type: text/plain\nContent-Disposition: attachment; filename=\"=?utf-8?q?gr=C3=BC=C3=9Fe.txt?=\"\n\nhello\n" +
		"--b\nContent-Type: text/plain\nContent-Disposition: attachment; filename=big.txt\n\n0123456789012345678901234567890\n" +
		"--b\nContent-Type: text/plain\nContent-Disposition: attachment; filename=third.txt\n\nx\n--b--\n"
	r.deliver(body)
	got := r.mustOnce()
	if len(got) != 1 || len(got[0].Media) != 2 {
		t.Fatalf("got %+v, want two files", got)
	}
	for i, want := range []string{"\x89PNG\r\n\x1a\n", "hello"} {
		data, err := os.ReadFile(got[0].Media[i].Path)
		if err != nil || string(data) != want {
			t.Errorf("file %d is %q, %v, want %q", i, data, err, want)
		}
		if !strings.HasPrefix(got[0].Media[i].Path, r.deps.Media.Dir) {
			t.Errorf("file %d is at %s", i, got[0].Media[i].Path)
		}
	}
	for _, want := range []string{
		"[image: " + got[0].Media[0].Path + "]", "[attachment: a.pdf - files of type application/pdf are not taken]",
		"[file: " + got[0].Media[1].Path + "]", "[attachment: big.txt - too large]", "[attachment: third.txt - too many files]",
	} {
		if q := got[0].Quoted; len(q) != 1 || !strings.Contains(q[0].Text, want) || strings.Contains(got[0].Text, want) {
			t.Errorf("%q beside %q lacks %q", q, got[0].Text, want)
		}
	}
}

// Nothing but the header of a stranger's mail is looked at, and nothing is kept.
func TestNoFilesOfStrangers(t *testing.T) {
	t.Parallel()
	r := newRig(t, newProvider(t, serverOptions{}), map[string]any{"allowedAttachmentTypes": []string{"*"}})
	r.deliver("From: eve@elsewhere.example\nContent-Type: image/png\nSubject: x\n\nx\n")
	r.mustOnce()
	if _, err := os.Stat(r.deps.Media.Dir); err == nil {
		t.Error("the folder for files was made")
	}
}

// A mail that is too large to be fetched keeps its text; what is left out is
// named.
func TestTooLarge(t *testing.T) {
	t.Parallel()
	r := newRig(t, newProvider(t, serverOptions{}), nil)
	r.deliver(letterOf(1, "big", strings.Repeat("0123456789\n", maxMail/11+1)))
	r.deliver(largeMail(2))
	got := r.mustOnce()
	if len(got) != 2 || !strings.Contains(said(got[0]), "0123456789") || !strings.Contains(said(got[0]), "only the beginning of its text") {
		t.Fatalf("got %d messages: %.300q", len(got), fmt.Sprint(got))
	}
	checkLargeMail(t, got[1])
}

// said is the text of a message with what is quoted in it.
func said(in bus.Inbound) string {
	parts := []string{in.Text}
	for _, q := range in.Quoted {
		parts = append(parts, q.Text)
	}
	return strings.Join(parts, "\n")
}

// largeMail has a text in two forms, a small file and one of more than 25 MB.
func largeMail(id int) string {
	return fmt.Sprintf("From: Ann Example <%s>\nTo: %s\nSubject: photos\nMessage-ID: <%d@friends.example>\n", owner, botAddress, id) +
		"MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=outer\n\n--outer\nContent-Type: multipart/alternative; boundary=inner\n\n" +
		"--inner\nContent-Type: text/plain; charset=iso-8859-1\nContent-Transfer-Encoding: quoted-printable\n\nSch=F6ne Gr=FC=DFe, the film is attached.\n" +
		"--inner\nContent-Type: text/html; charset=utf-8\n\n<p>the other form</p>\n--inner--\n" +
		"--outer\nContent-Type: text/plain; name=notes.txt\nContent-Disposition: attachment; filename=notes.txt\n\nsmall\n" +
		"--outer\nContent-Type: video/mp4\nContent-Transfer-Encoding: base64\nContent-Disposition: attachment; filename=\"=?utf-8?q?f=C3=BCr_dich.mp4?=\"\n\n" +
		strings.Repeat(strings.Repeat("AAAA", 18)+"\n", maxMail/73+1) + "--outer--\n"
}

func checkLargeMail(t *testing.T, in bus.Inbound) {
	t.Helper()
	text := said(in)
	for _, want := range []string{
		"Schöne Grüße, the film is attached.",
		"[attachment: notes.txt - left out, since the mail has more than 25 MB]", "[attachment: für dich.mp4 - left out, since the mail has more than 25 MB]",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the agent got %.600q, want %q", text, want)
		}
	}
	if strings.Contains(text, "the other form") || strings.Contains(text, "AAAA") || len(in.Media) != 0 {
		t.Errorf("the agent got %.600q with %d files", text, len(in.Media))
	}
}

// A file of which nothing can be decoded is named as damaged.
func TestDamagedFile(t *testing.T) {
	t.Parallel()
	r := newRig(t, newProvider(t, serverOptions{}), map[string]any{"allowedAttachmentTypes": []string{"*"}})
	r.deliver("From: Ann Example <" + owner + ">\nSubject: x\nMessage-ID: <1@friends.example>\nMIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=b\n\n" +
		"--b\n\nlook\n--b\nContent-Type: image/png; name=plot.png\nContent-Transfer-Encoding: base64\n\n!!!! no base64 !!!!\n--b--\n")
	got := r.mustOnce()
	if len(got) != 1 || !strings.Contains(said(got[0]), "look") || !strings.Contains(said(got[0]), "[attachment: plot.png - damaged, nothing of it can be read]") {
		t.Errorf("the agent got %+v", got)
	}
}

func TestBodyIsCut(t *testing.T) {
	t.Parallel()
	r := newRig(t, newProvider(t, serverOptions{}), map[string]any{"maxBodyChars": 10})
	r.deliver(letterOf(1, "x", "ää ää ää ää ää"))
	got := r.mustOnce()
	_, body, _ := strings.Cut(got[0].Text, "\n\n")
	if n := len([]rune(body)); n > 10 || !strings.HasPrefix(body, "ää ää") {
		t.Errorf("body is %q", body)
	}
}

func TestSpoken(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, mail, want string }{
		{"command", letterOf(1, "x", "/new"), "/new"},
		{"answer", strings.Replace(letterOf(1, "x", "yes\n\nOn Monday bot wrote:\n> sure?"), "Subject:", "In-Reply-To: <ask.q1.77@example.org>\nSubject:", 1), "yes"},
		{"code", letterOf(1, "x", "yes k7f2"), "yes k7f2"},
		{"a reply to another mail", strings.Replace(letterOf(1, "x", "yes"), "Subject:", "In-Reply-To: <nanobot.q1.77@example.org>\nSubject:", 1), "[EMAIL-CONTEXT]"},
		{"a path", letterOf(1, "x", "/etc/hosts\nis odd"), "[EMAIL-CONTEXT]"},
		{"unproven", strings.Replace(letterOf(1, "x", "/new"), "dmarc=pass", "dmarc=fail", 1), "[EMAIL-CONTEXT]"},
		{"empty", letterOf(1, "x", ""), "[EMAIL-CONTEXT]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, newProvider(t, serverOptions{}), nil)
			r.deliver(c.mail)
			if got := r.mustOnce(); len(got) != 1 || !strings.HasPrefix(got[0].Text, c.want) || c.want[0] != '[' && got[0].Text != c.want {
				t.Errorf("got %+v, want %q", got, c.want)
			}
		})
	}
}

// A mail answers a question only as a reply to the mail that asked, from a
// proven sender, in a few words of their own.
func TestMailAnswers(t *testing.T) {
	t.Parallel()
	reply := func(body, to string) string {
		return strings.Replace(letterOf(1, "x", body), "Subject:", "In-Reply-To: "+to+"\nSubject:", 1)
	}
	const ask = "<ask.ab12-34cd.77@example.org>"
	for _, c := range []struct {
		name, mail string
		want       *bus.Answer
	}{
		{"reply", reply("yes\n\nOn Monday bot wrote:\n> sure?", ask), &bus.Answer{QuestionID: "ab12-34cd", Option: "yes"}},
		{"with a reason", reply("no, use the other one", ask), &bus.Answer{QuestionID: "ab12-34cd", Option: "no, use the other one"}},
		{"no reply", letterOf(1, "x", "yes"), nil},
		{"reply to an answer of ours", reply("yes", "<nanobot.ab12@example.org>"), nil},
		{"an id without a question", reply("yes", "<ask.77@example.org>"), nil},
		{"unproven", strings.Replace(reply("yes", ask), "dmarc=pass", "dmarc=fail", 1), nil},
		{"forwarded", strings.Replace(reply("yes", ask), "Subject: x", "Subject: Fwd: x", 1), nil},
		{"a letter", reply("yes\nbut first tell me what it does", ask), nil},
		{"a command", reply("/stop", ask), nil},
		{"only quoted", reply("> yes", ask), nil},
		{"the id in the text", letterOf(1, "ask.ab12-34cd.77", "yes ab12-34cd"), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, newProvider(t, serverOptions{}), nil)
			r.deliver(c.mail)
			got := r.mustOnce()
			if len(got) != 1 {
				t.Fatalf("%d messages", len(got))
			}
			if diff := cmp.Diff(c.want, got[0].Answer); diff != "" && (c.want != nil || !got[0].Untrusted) {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPostActions(t *testing.T) {
	t.Parallel()
	full := imap.CapSet{imap.CapIMAP4rev1: {}, imap.CapMove: {}, imap.CapUIDPlus: {}}
	bare := imap.CapSet{imap.CapIMAP4rev1: {}}
	for _, c := range []struct {
		name           string
		caps           imap.CapSet
		changes        map[string]any
		inbox, archive int // mails left; the stranger's mail is one of them
	}{
		{"delete", full, map[string]any{"postAction": "delete"}, 1, 0},
		{"delete, bare server", bare, map[string]any{"postAction": "delete"}, 2, 0},
		{"delete, bare server, expunge", bare, map[string]any{"postAction": "delete", "postActionExpunge": true}, 1, 0},
		{"move", full, map[string]any{"postAction": "move", "postActionMoveMailbox": "Archive"}, 1, 1},
		{"move, bare server", bare, map[string]any{"postAction": "move", "postActionMoveMailbox": "Archive", "postActionExpunge": true}, 1, 1},
		{"skipped ones too", full, map[string]any{"postAction": "delete", "postActionIgnoreSkipped": false}, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, newProvider(t, serverOptions{caps: c.caps}), c.changes)
			r.deliver(letterOf(1, "x", "hi"))
			r.deliver("From: eve@elsewhere.example\nSubject: x\n\nx\n")
			if got := r.mustOnce(); len(got) != 1 {
				t.Fatalf("%d messages, want 1", len(got))
			}
			inbox, _ := r.counts("INBOX")
			archive, _ := r.counts("Archive")
			if inbox != c.inbox || archive != c.archive {
				t.Errorf("%d in INBOX and %d in Archive, want %d and %d", inbox, archive, c.inbox, c.archive)
			}
			if got := r.mustOnce(); len(got) != 1 {
				t.Errorf("%d messages after another look", len(got))
			}
		})
	}
}

// What an interrupted run left to be done on the server is done later.
func TestChoresSurvive(t *testing.T) {
	t.Parallel()
	changes := map[string]any{"postAction": "move", "postActionMoveMailbox": "Nowhere"}
	r := newRig(t, newProvider(t, serverOptions{}), changes)
	r.deliver(letterOf(1, "x", "hi"))
	r.mustOnce()
	if s := r.Log.String(); !strings.Contains(s, "Nowhere") {
		t.Fatalf("the log does not name the mailbox:\n%s", s)
	}
	r.deliver(letterOf(2, "x", "again"))
	if got := r.mustOnce(); len(got) != 2 {
		t.Fatalf("%d messages, want 2: mail is read all the same", len(got))
	}
	changes["postActionMoveMailbox"] = "Archive"
	r.reopen(changes)
	if got := r.mustOnce(); len(got) != 2 {
		t.Errorf("%d messages, want 2", len(got))
	}
	if n, _ := r.counts("Archive"); n != 2 {
		t.Errorf("%d mails in Archive, want 2", n)
	}
}

// With sessionPerThread all mails of a thread are one conversation, whoever of
// the two wrote last, and another thread is another one.
func TestSessionPerThread(t *testing.T) {
	t.Parallel()
	r := newRig(t, newProvider(t, serverOptions{}), map[string]any{"sessionPerThread": true})
	answer := func(id int, refs string) string {
		return strings.Replace(letterOf(id, "Re: a", "more"), "Subject:", "References: "+refs+"\nSubject:", 1)
	}
	r.deliver(letterOf(1, "a", "one"))
	r.deliver(answer(2, "<1@friends.example> <nanobot.x@example.org>"))
	r.deliver(letterOf(3, "b", "other"))
	r.deliver(strings.Replace(letterOf(4, "Re: a", "no history"), "Subject:", "In-Reply-To: <1@friends.example>\nSubject:", 1))
	got := r.mustOnce()
	if len(got) != 4 {
		t.Fatalf("%d messages, want 4", len(got))
	}
	first, other := got[0].SessionKey, got[2].SessionKey
	if !strings.HasPrefix(first, "email:"+owner+":thread:") || got[1].SessionKey != first || got[3].SessionKey != first || other == first || other == "" {
		t.Errorf("conversations %q, %q, %q, %q", first, got[1].SessionKey, other, got[3].SessionKey)
	}
	forged := strings.Replace(letterOf(5, "Re: a", "obey"), proven, "References: <1@friends.example>\n", 1)
	r.Forget()
	r.deliver(forged)
	if got := r.mustOnce(); len(got) != 1 || !strings.HasSuffix(got[0].SessionKey, ":unverified") {
		t.Errorf("a forged mail of the thread is in %+v", got)
	}
}

// Who got a mail of the owner's can send it again, with another Reply-To: most
// proofs do not cover that line.
func TestReplyToOfAStranger(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, replyTo, want string }{
		{"own mailbox", "Ann+bot@friends.example", "ann+bot@friends.example"},
		{"on the list", "Bob <bob@friends.example>", "bob@friends.example"},
		{"same domain", "eve@friends.example", ""},
		{"elsewhere", "eve@evil.example", ""},
	} {
		r := newRig(t, newProvider(t, serverOptions{}), map[string]any{"allowFrom": []string{owner, "BOB@friends.example"}})
		r.deliver(strings.Replace(letterOf(1, "x", "hi"), "Subject:", "Reply-To: "+c.replyTo+"\nSubject:", 1))
		got := r.mustOnce()
		if len(got) != 1 || got[0].Meta["reply_to"] != c.want || got[0].Meta["verified"] != "true" {
			t.Fatalf("%s: %+v, want an answer to %q", c.name, got, c.want)
		}
		if q := got[0].Quoted; len(q) != 0 != (c.want == "") || len(q) > 0 && !strings.HasPrefix(q[0].Text, "Reply-To: ") {
			t.Errorf("%s: the agent was told %q", c.name, q)
		}
	}
}

func TestMailFromBeforeTheStart(t *testing.T) {
	t.Parallel()
	r := newRig(t, newProvider(t, serverOptions{}), map[string]any{"catchUp": false})
	r.deliverAt(letterOf(1, "a", "old"), time.Now().Add(-time.Hour))
	r.deliverAt(letterOf(2, "b", "new"), time.Now())
	if got := r.mustOnce(); len(got) != 1 || !strings.HasSuffix(got[0].Text, "new") {
		t.Errorf("got %+v, want only what is new", got)
	}
	if _, unseen := r.counts("INBOX"); unseen != 1 {
		t.Errorf("%d unread, want the old one", unseen)
	}
}

// A mail that breaks the program is given up, and does not hold up the others.
func TestPanicIsContained(t *testing.T) {
	t.Parallel()
	r := newRig(t, newProvider(t, serverOptions{}), map[string]any{"allowedAttachmentTypes": []string{"*"}})
	r.deps.Media, r.post.deps.Media = nil, nil // so that keeping a file does
	r.deliver(strings.Replace(letterOf(1, "a", "x"), "\n\nx\n", "\nContent-Type: application/pdf\n\nx\n", 1))
	r.deliver(letterOf(2, "b", "two"))
	if got := r.mustOnce(); len(got) != 1 || !strings.HasSuffix(got[0].Text, "two") {
		t.Errorf("got %+v, want the second mail", got)
	}
	if !strings.Contains(r.Log.String(), "was given up") {
		t.Error("nobody is told")
	}
}
