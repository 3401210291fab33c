package email

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"github.com/emersion/go-imap/v2"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/bus/media"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/access"
)

// verdict is what became of a mail.
type verdict uint8

const (
	left    verdict = iota // not for us: stays as it is
	passed                 // not for us, but we tidy up after it
	handled                // the agent has it
)

// pass deals with all mails that are new.
func (p *post) pass(ctx context.Context, m *mailbox, submit chat.Submit) error {
	last, err := p.facts.begin(m.validity)
	if err != nil {
		return err
	}
	if err := p.tidy(ctx, m); err != nil { // left over from an interrupted run
		return err
	}

	uids, err := m.unread(last)
	if err != nil {
		return err
	}

	for some := range slices.Chunk(uids, batch) {
		list, err := m.heads(some)
		if err != nil {
			return err
		}

		for _, h := range list {
			v, err := p.contained(ctx, m, h, submit)
			if err != nil {
				return err
			}
			if err := p.facts.read(uint32(h.uid), v); err != nil {
				return err
			}
		}

		if err := p.tidy(ctx, m); err != nil {
			return err
		}
	}

	return nil
}

// tidy flags, moves or deletes what was dealt with. A server that refuses is
// asked again later; it does not keep us from reading mail.
func (p *post) tidy(ctx context.Context, m *mailbox) error {
	done, skipped := p.facts.chores()
	if len(done)+len(skipped) == 0 {
		return nil
	}

	err := p.flagAndMove(m, done, skipped)
	if refusal, ok := errors.AsType[*imap.Error](err); ok && refusal.Type != imap.StatusResponseTypeBye {
		p.deps.Log.WarnContext(ctx, "the server refuses what is to be done with mails that were read", "err", err)
		return nil
	}
	return err
}

func (p *post) flagAndMove(m *mailbox, done, skipped []uint32) error {
	all := slices.Concat(done, skipped)
	if p.o.MarkSeen {
		if err := m.seen(uidSet(all)); err != nil {
			return err
		}
	}

	away := done
	if !p.o.PostActionIgnoreSkipped {
		away = all
	}

	if err := p.moveAway(m, away); err != nil {
		return err
	}
	return p.facts.tidied(all)
}

func (p *post) moveAway(m *mailbox, uids []uint32) error {
	if len(uids) == 0 {
		return nil
	}

	switch p.o.PostAction {
	case postDelete:
		return m.remove(uidSet(uids), p.o.PostActionExpunge)
	case postMove:
		return m.move(uidSet(uids), p.o.PostActionMoveMailbox, p.o.PostActionExpunge)
	}
	return nil
}

func uidSet(list []uint32) imap.UIDSet {
	var s imap.UIDSet
	for _, u := range list {
		s.AddNum(imap.UID(u))
	}
	return s
}

// contained is receive for a mail that may break the program. It would come
// again for ever, and hold up all others, so it is given up.
func (p *post) contained(ctx context.Context, m *mailbox, h head, submit chat.Submit) (v verdict, err error) {
	defer func() {
		if r := recover(); r != nil {
			p.deps.Log.ErrorContext(ctx, "a mail was given up and left unread, please report this", "uid", h.uid, "panic", r, "stack", string(debug.Stack()))
			v, err = left, nil
		}
	}()
	return p.receive(ctx, m, h, submit)
}

// receive deals with one mail. Nothing but its header is looked at before the
// gate has let the sender in.
func (p *post) receive(ctx context.Context, m *mailbox, h head, submit chat.Submit) (verdict, error) {
	l := readHeader(h.header)
	if l.from == nil || len(h.header) >= maxHeader {
		p.deps.Log.DebugContext(ctx, "a mail without one clear sender is passed over", "uid", h.uid)
		return p.unwanted(), nil
	}

	why := machine(l, p.own)
	if before, _ := p.facts.thread(l.from.Address); why == "" && awayNotice(l, before.Subject) {
		why = "an automatic reply, by its subject"
	}

	if why != "" {
		p.deps.Log.InfoContext(ctx, "a mail is not answered", "uid", h.uid, "from", l.from.Address, "why", why)
		if slices.Contains(p.own, l.from.Address) {
			return passed, nil
		}
		return p.unwanted(), nil
	}

	v := p.visitor(l, h)
	pass, ok := p.deps.Gate.Admit(ctx, v)
	if !ok {
		return p.unwanted(), nil
	}

	d := mailData{head: h, validity: m.validity}
	var raw []byte
	if h.size <= maxMail {
		var err error
		if raw, err = m.body(h.uid); err != nil {
			return left, err
		}
		if raw == nil {
			return left, nil // deleted meanwhile
		}
		d.content = readContent(raw)
	} else {
		c, err := m.outline(h.uid)
		if err != nil {
			return left, err
		}
		if c == nil {
			return left, nil
		}
		d.content = *c
	}

	d.sure = p.senders.verified(ctx, l, raw)
	if !d.sure && !p.affords(l.from.Address) {
		p.deps.Log.WarnContext(ctx, "too many mails whose sender nothing proves; this one is left unread", "uid", h.uid, "from", l.from.Address)
		return p.unwanted(), nil
	}

	err := submit(ctx, p.inbound(ctx, pass, l, d))
	if err != nil && !d.sure {
		p.forged.back(l.from.Address)
		p.strays.back("")
	}
	return handled, err
}

// affords reports whether one more mail whose sender nothing proves is read.
// Every sender can write these; each costs a turn, and each answer goes to a person
// who may never have written.
func (p *post) affords(from string) bool {
	now := p.deps.Now()
	if p.forged.wait(from, now) > 0 {
		return false
	}
	if p.strays.wait("", now) > 0 {
		p.forged.back(from)
		return false
	}
	return true
}

// unwanted returns the verdict about mails that are not for us. They stay unread
// for whoever shares the mailbox, unless we are told to tidy up.
func (p *post) unwanted() verdict {
	if p.o.PostActionIgnoreSkipped {
		return left
	}
	return passed
}

func (p *post) visitor(l letter, h head) access.Visitor {
	return access.Visitor{
		Route:     bus.Route{Channel: p.deps.Name, ChatID: l.from.Address, MessageID: or(l.id, strconv.FormatUint(uint64(h.uid), 10))},
		IDs:       []string{l.from.Address},
		Name:      text.Cut(line(l.from.Name), 64),
		Direct:    true,
		NoPairing: true,
		At:        h.at,
	}
}

// mailData is a mail as the server has it.
type mailData struct {
	head
	validity uint32
	content  content
	sure     bool // the sender is proven
}

// inbound makes a message of a mail.
func (p *post) inbound(ctx context.Context, pass access.Pass, l letter, d mailData) bus.Inbound {
	c := d.content
	whole := c.text()
	sure := d.sure
	passedOn := forwarded(l.subject, whole)
	body, others := typed(l.subject, whole)
	if !sure {
		body, others = whole, ""
		if !passedOn {
			body = ownWords(whole)
		}
	}

	in := pass.Inbound(p.id(l, d, sure), "")
	if p.o.SessionPerThread {
		in.SessionKey = threadKey(in.Route, l)
	}

	in.Untrusted = !sure // else the text has only what the sender typed
	if !sure {
		// A conversation apart, without a person who can be asked for permission.
		in.Scope = in.Route.Channel + ":" + in.Route.ChatID + "/" + bus.Unverified
		in.SessionKey = in.Route.SessionKey() + ":" + bus.Unverified
		in.Interactive = false
		p.deps.Log.WarnContext(ctx, "the sender of a mail is not proven", "uid", d.uid, "from", l.from.Address)
	}

	before, known := p.facts.thread(l.from.Address)
	t := thread{MessageID: l.id, References: l.refs, Subject: l.subject, At: p.deps.Now()}
	if sure {
		if p.mayAnswer(l) {
			t.ReplyTo = l.replyTo
		}
		p.facts.remember(l.from.Address, t)
	}

	in.Meta = meta(l, t, d, sure)
	if sure && others == "" && len(c.files) == 0 {
		if in.Answer = answerOf(l, body); in.Answer != nil {
			in.Text = body
			return in
		}
	}

	if in.Text = spoken(body); sure && others == "" && len(c.files) == 0 && in.Text != "" {
		return in
	}

	if body == "" && others == "" {
		body = "[empty message]"
	}

	own, rest := p.envelope(l, sure, known && strings.EqualFold(bare(before.Subject), bare(l.subject)))
	notes, saved := p.attachments(ctx, c.files)
	if c.cut {
		notes = append(notes, fmt.Sprintf("[the mail has more than %d MB; only the beginning of its text was read]", maxMail>>20))
	}

	in.Text, in.Media = strings.TrimSpace(own+"\n\n"+text.Ellipsis(body, p.o.MaxBodyChars)), saved
	if !sure { // all of it is fenced
		in.Text = strings.Join(append(append([]string{in.Text}, rest...), notes...), "\n")
		return in
	}

	for _, q := range []bus.Quote{
		{About: "in the header of the mail", Text: strings.Join(rest, "\n")},
		{About: "passed on or quoted in the mail", Text: text.Ellipsis(others, p.o.MaxBodyChars)},
		{About: "files", Text: strings.Join(notes, "\n")},
	} {
		if q.Text != "" {
			in.Quoted = append(in.Quoted, q)
		}
	}

	return in
}

// bare returns a subject without the word that says that it is an answer.
func bare(subject string) string {
	if before, after, ok := strings.Cut(subject, ":"); ok && len(before) <= 6 {
		return strings.TrimSpace(after)
	}
	return strings.TrimSpace(subject)
}

// mayAnswer reports whether an answer may go to Reply-To: to the sender's own
// mailbox, or to a person who may talk to us anyway. Proofs of a sender often
// do not cover this line, so that who got a mail of the owner could send it to
// us again with an address of their own.
func (p *post) mayAnswer(l letter) bool {
	box := func(a string) string {
		local, host, _ := strings.Cut(a, "@")
		local, _, _ = strings.Cut(local, "+")
		return local + "@" + host
	}
	return box(l.replyTo) == box(l.from.Address) ||
		slices.ContainsFunc(slices.Concat(p.o.AllowFrom, p.o.Owners), func(s string) bool { return text.LowerASCII(strings.TrimSpace(s)) == l.replyTo })
}

// id tells a mail from all others. Of a proven sender the mail's own id counts,
// so that one that is sent again, or whose mailbox was renumbered, is
// handled once.
func (p *post) id(l letter, d mailData, sure bool) string {
	if sure && l.id != "" {
		sum := sha256.Sum256([]byte(l.from.Address + "\x00" + l.id))
		return "mail." + hex.EncodeToString(sum[:12])
	}
	return fmt.Sprintf("%d.%d", d.validity, d.uid)
}

// threadKey returns the conversation of a mail and of all that follow it: that of
// the first mail of its thread.
func threadKey(r bus.Route, l letter) string {
	root := l.id
	if len(l.refs) > 0 {
		root = l.refs[0]
	}
	if root == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(root))
	return r.SessionKey() + ":thread:" + hex.EncodeToString(sum[:8])
}

// maxWords is how many words the answer to a question has. A mail that says
// more is one to read.
const maxWords = 6

// answerOf returns the answer that a mail gives by being a reply to a mail that
// asked: a few words on one line.
func answerOf(l letter, body string) *bus.Answer {
	id := questionOf(l.answers)
	n := len(strings.Fields(body))
	if id == "" || n == 0 || n > maxWords || strings.Contains(body, "\n") || strings.HasPrefix(body, "/") || strings.HasPrefix(body, ">") {
		return nil
	}
	return &bus.Answer{QuestionID: id, Option: body}
}

// spoken returns the text of a mail that must reach the agent as it is: a command,
// or a word and the code of a question. "" is any other mail.
func spoken(body string) string {
	if strings.Contains(body, "\n") {
		return ""
	}
	if strings.HasPrefix(body, "/") || coded(body) {
		return body
	}
	return ""
}

// coded reports whether a line ends in something that looks like the code of a
// question. Whether it is one, the agent knows.
func coded(body string) bool {
	words := strings.Fields(body)
	if len(words) < 2 || len(words) > maxWords {
		return false
	}
	code := words[len(words)-1]
	return len(code) == 4 && strings.ContainsAny(code[1:2], "0123456789") && strings.ContainsAny(code[3:], "0123456789")
}

// envelope returns what the agent is told about a mail besides its text: what its
// sender wrote, and what names others or may be theirs. The subject of an
// answer is that of the mail it answers; goesOn says that the thread with the
// sender has it already, which need not be told again.
func (p *post) envelope(l letter, sure, goesOn bool) (own string, rest []string) {
	from := l.from.Address
	if name := line(l.from.Name); name != "" {
		from = name + " <" + from + ">"
	}

	lines := []string{"[EMAIL-CONTEXT]", "From: " + from}
	switch answer := len(l.refs) > 0 || l.answers != "" || bare(l.subject) != l.subject; {
	case !sure, !answer:
		lines = append(lines, "Subject: "+l.subject)
	case !goesOn:
		rest = append(rest, "Subject: "+l.subject)
	}

	lines = append(lines, "Date: "+l.date)
	to, cc := l.others(p.own)
	for _, more := range []struct {
		key  string
		list []string
	}{{"To", to}, {"Cc", cc}} {
		if len(more.list) > 0 {
			rest = append(rest, "Also "+more.key+": "+text.Cut(strings.Join(more.list, ", "), maxShown)+" (your answer goes to the sender alone)")
		}
	}

	if l.replyTo != "" && l.replyTo != l.from.Address && !p.mayAnswer(l) {
		rest = append(rest, "Reply-To: "+line(l.replyTo)+" (not on the list of people: your answer goes to the sender)")
	}
	if !sure {
		lines = append(lines, "Warning: nothing proves that this sender wrote the mail.")
	}
	return strings.Join(lines, "\n"), rest
}

// meta comes back with the answer.
func meta(l letter, t thread, d mailData, sure bool) map[string]string {
	out := map[string]string{
		"message_id": l.id, "subject": l.subject, "date": l.date, "sender_email": l.from.Address,
		"uid": strconv.FormatUint(uint64(d.uid), 10), "verified": strconv.FormatBool(sure),
		"references": strings.Join(t.refs(), " "),
	}
	if t.ReplyTo != "" {
		out["reply_to"] = t.ReplyTo
	}
	return out
}

// attachments stores the files that are wanted and says what became of each.
func (p *post) attachments(ctx context.Context, files []part) (notes []string, kept []bus.Media) {
	for i, f := range files {
		name := f.name
		if name == "" {
			name = "file" + strconv.Itoa(i+1) + suffix(f.mime)
		}

		note := func(why string) {
			notes = append(notes, "[attachment: "+media.FileName(name)+" - "+why+"]")
		}
		switch {
		case f.omitted:
			note(fmt.Sprintf("left out, since the mail has more than %d MB", maxMail>>20))
		case f.damaged:
			note("damaged, nothing of it can be read")
		case !p.wanted(f.mime):
			note("files of type " + line(f.mime) + " are not taken")
		case int64(len(f.data)) > p.o.MaxAttachmentSize:
			note("too large")
		case len(kept) >= p.o.MaxAttachments:
			note("too many files")
		default:
			saved, err := p.deps.Media.Save(ctx, name, bytes.NewReader(f.data))
			if err != nil {
				if note("download failed"); !errors.Is(err, media.ErrTooLarge) {
					p.deps.Log.WarnContext(ctx, "an attachment cannot be kept", "err", err)
				}
				continue
			}

			kept = append(kept, saved)
			notes = append(notes, "["+kind(saved.MIME)+": "+saved.Path+"]")
		}
	}
	return notes, kept
}

// wanted reports whether files of a type are taken.
func (p *post) wanted(mime string) bool {
	return slices.ContainsFunc(p.o.AllowedAttachmentTypes, func(g string) bool {
		ok, err := path.Match(strings.ToLower(g), mime)
		return err == nil && (ok || g == "*")
	})
}

func kind(mime string) string {
	switch head, _, _ := strings.Cut(mime, "/"); head {
	case "image", "audio", "video":
		return head
	}
	return "file"
}

// suffix returns the ending of a file that came without a name.
func suffix(mime string) string {
	switch mime {
	case "image/png":
		return ".png"
	case "image/jpeg":
		return ".jpg"
	case "image/gif":
		return ".gif"
	case "application/pdf":
		return ".pdf"
	case "message/rfc822":
		return ".eml"
	case "text/calendar":
		return ".ics"
	}
	return ""
}
