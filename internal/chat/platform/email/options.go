package email

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"net/mail"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/access"
)

// options is the section of the configuration.
type options struct {
	chat.Common
	ConsentGranted bool `json:"consentGranted" setup:"yes" doc:"You agree that the agent reads and answers this mailbox."`

	IMAPHost     string          `json:"imapHost" setup:"yes" doc:"Server that mail is read from."`
	IMAPPort     int             `json:"imapPort" min:"1" max:"65535" doc:"Port of the IMAP server."`
	IMAPUsername string          `json:"imapUsername" setup:"yes" doc:"User name at the IMAP server."`
	IMAPPassword httpsafe.Secret `json:"imapPassword" setup:"yes" doc:"Password at the IMAP server."`
	IMAPMailbox  string          `json:"imapMailbox" doc:"Folder that is read."`
	IMAPUseSSL   bool            `json:"imapUseSsl" doc:"Connect with TLS; without it STARTTLS is used, except on this machine."`

	SMTPHost     string          `json:"smtpHost" setup:"yes" doc:"Server that mail is sent by."`
	SMTPPort     int             `json:"smtpPort" min:"1" max:"65535" doc:"Port of the SMTP server."`
	SMTPUsername string          `json:"smtpUsername" setup:"yes" doc:"User name at the SMTP server."`
	SMTPPassword httpsafe.Secret `json:"smtpPassword" setup:"yes" doc:"Password at the SMTP server."`
	SMTPUseTLS   bool            `json:"smtpUseTls" doc:"Use STARTTLS."`
	SMTPUseSSL   bool            `json:"smtpUseSsl" doc:"Connect with TLS from the first byte."`
	FromAddress  string          `json:"fromAddress" doc:"Address of the agent; empty uses the user name."`

	AutoReplyEnabled    bool     `json:"autoReplyEnabled" doc:"Answer people who write."`
	PollIntervalSeconds int      `json:"pollIntervalSeconds" min:"5" doc:"Time between two looks at the mailbox, in seconds, where the server cannot announce mail."`
	Idle                bool     `json:"idle" doc:"Let the server announce mail."`
	MarkSeen            bool     `json:"markSeen" doc:"Mark mail as read once it was received."`
	MaxBodyChars        int      `json:"maxBodyChars" doc:"Characters of a mail that the model sees."`
	SubjectPrefix       string   `json:"subjectPrefix" doc:"Put before the subject of answers."`
	VerifyDKIM          bool     `json:"verifyDkim" doc:"Let DKIM prove who sent a mail."`
	VerifySPF           bool     `json:"verifySpf" doc:"Let SPF prove who sent a mail; with both off, every From counts."`
	TrustedAuthservIDs  []string `json:"trustedAuthservIds" doc:"Servers whose Authentication-Results are trusted; empty uses those of your provider."`
	SessionPerThread    bool     `json:"sessionPerThread" doc:"Give each mail thread a session of its own."`

	AllowedAttachmentTypes []string `json:"allowedAttachmentTypes" doc:"MIME types of attachments that are kept, such as image/*; empty keeps none."`
	MaxAttachmentSize      int64    `json:"maxAttachmentSize" doc:"Largest attachment that is kept, in bytes."`
	MaxAttachments         int      `json:"maxAttachmentsPerEmail" doc:"Attachments that are kept of one mail."`

	PostAction              string          `json:"postAction" enum:"delete|move" doc:"What happens to mail that was received: delete or move; empty leaves it."`
	PostActionMoveMailbox   string          `json:"postActionMoveMailbox" doc:"Folder that mail is moved to."`
	PostActionExpunge       bool            `json:"postActionExpunge" doc:"Delete at once on servers that cannot delete single mails."`
	PostActionIgnoreSkipped bool            `json:"postActionIgnoreSkipped" doc:"Leave mail alone that was not for the agent."`
	OAuthSection            json.RawMessage `json:"oauth" doc:"Sign in with OAuth instead of passwords; see docs/how-to/channels/email.md."`

	oauth *oauthOptions
	via   *url.URL // nil: no proxy
}

const (
	postDelete = "delete"
	postMove   = "move"
)

func defaults() *options {
	return &options{
		IMAPPort:                993,
		IMAPMailbox:             "INBOX",
		IMAPUseSSL:              true,
		SMTPPort:                587,
		SMTPUseTLS:              true,
		AutoReplyEnabled:        true,
		PollIntervalSeconds:     30,
		Idle:                    true,
		MarkSeen:                true,
		MaxBodyChars:            12000,
		SubjectPrefix:           "Re: ",
		VerifyDKIM:              true,
		VerifySPF:               true,
		MaxAttachmentSize:       2_000_000,
		MaxAttachments:          5,
		PostActionIgnoreSkipped: true,
	}
}

// Check says which setting is wrong or missing.
func (o *options) Check() error {
	if !o.ConsentGranted {
		return errors.New("consentGranted: set it to true if the agent may read this mailbox and answer from it")
	}
	if err := o.checkOAuth(); err != nil {
		return err
	}

	for _, need := range []struct{ key, value string }{
		{"imapHost", o.IMAPHost},
		{"imapUsername", o.IMAPUsername},
		{"imapPassword", o.password(o.IMAPPassword)},
		{"smtpHost", o.SMTPHost},
		{"smtpUsername", o.SMTPUsername},
		{"smtpPassword", o.password(o.SMTPPassword)},
		{"imapMailbox", o.IMAPMailbox},
	} {
		if need.value == "" {
			return fmt.Errorf("%s is missing", need.key)
		}
		if strings.ContainsAny(need.value, "\r\n\x00") {
			return fmt.Errorf("%s: no line ends", need.key)
		}
	}

	if o.FromAddress == "" {
		o.FromAddress = o.SMTPUsername
		if !strings.Contains(o.FromAddress, "@") {
			o.FromAddress = o.IMAPUsername
		}
	}

	if o.Proxy != "" {
		var err error
		if o.via, err = httpsafe.ParseProxy(o.Proxy); err != nil {
			return err
		}
	}

	if _, err := mail.ParseAddress(o.FromAddress); err != nil {
		return errors.New("fromAddress: name the address that mails are sent from")
	}
	return o.checkLimits()
}

// password returns what stands for a password in the check: with oauth none is needed.
func (o *options) password(s httpsafe.Secret) string {
	if o.oauth != nil {
		return "none"
	}
	return s.Reveal()
}

func (o *options) checkLimits() error {
	switch {
	case o.IMAPPort < 1 || o.IMAPPort > 65535:
		return errors.New("imapPort: 1 to 65535")
	case o.SMTPPort < 1 || o.SMTPPort > 65535:
		return errors.New("smtpPort: 1 to 65535")
	case !o.SMTPUseSSL && !o.SMTPUseTLS && !loopback(o.SMTPHost):
		return errors.New("smtpUseTls: a password goes to another machine only with TLS")
	case o.PollIntervalSeconds < 1 || o.MaxBodyChars < 1 || o.MaxAttachmentSize < 0 || o.MaxAttachments < 0:
		return errors.New("pollIntervalSeconds and maxBodyChars must be at least 1, limits of attachments not negative")
	case strings.ContainsAny(o.SubjectPrefix, "\r\n"):
		return errors.New("subjectPrefix: no line ends")
	}

	o.PollIntervalSeconds = max(o.PollIntervalSeconds, 5)
	for _, g := range o.AllowedAttachmentTypes {
		if _, err := path.Match(strings.ToLower(g), "a/b"); err != nil {
			return fmt.Errorf("allowedAttachmentTypes: %q is not a pattern such as image/*", g)
		}
	}

	switch o.PostAction {
	case "", postDelete:
		return nil
	case postMove:
		if o.PostActionMoveMailbox == "" {
			return errors.New("postActionMoveMailbox: name the mailbox that mails are moved to")
		}
		return nil
	}

	return fmt.Errorf("postAction: %q is neither delete nor move", o.PostAction)
}

// caps: mails are long, so nothing is split, and files go with the text. They
// are never edited and know no typing, so only whole answers are sent.
func (o *options) caps() chat.Caps {
	return chat.Caps{MaxMedia: o.MaxAttachmentSize, Together: math.MaxInt}
}

// own returns the addresses that are ours, in lower case.
func (o *options) own() []string {
	out := []string{address(o.FromAddress)}
	for _, a := range []string{o.SMTPUsername, o.IMAPUsername} {
		if strings.Contains(a, "@") {
			out = append(out, address(a))
		}
	}
	return out
}

func (o *options) poll() time.Duration { return time.Duration(o.PollIntervalSeconds) * time.Second }

func (o *options) imapAddress() string { return net.JoinHostPort(o.IMAPHost, strconv.Itoa(o.IMAPPort)) }
func (o *options) smtpAddress() string { return net.JoinHostPort(o.SMTPHost, strconv.Itoa(o.SMTPPort)) }

// address returns the bare address in lower case.
func address(s string) string {
	if a, err := mail.ParseAddress(s); err == nil {
		s = a.Address
	}
	return strings.ToLower(strings.TrimSpace(s))
}

// loopback reports whether a host is this machine, where TLS protects nothing.
func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// readEntry reads an entry of allowFrom or owners: an address, in which large and
// small letters of ASCII are the same. Other letters are not: some of them are
// taken for letters of ASCII, and the mailbox is another person's.
func readEntry(written string) []access.Entry {
	s := strings.TrimSpace(written)
	if s == "*" {
		return []access.Entry{{Kind: access.Anyone}}
	}
	e := access.Entry{Kind: access.ID, Value: text.LowerASCII(s), As: written}
	if local, host, ok := strings.Cut(s, "@"); !ok || local == "" || host == "" {
		e.Advice = "it is not an address; write person@example.org"
	}
	return []access.Entry{e}
}
