package weixin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

// How long a login takes.
const (
	loginTime  = 10 * time.Minute
	statusTime = 60 * time.Second // of one poll, which the service answers after 35 s at most
	statusWait = time.Second
	refreshes  = 3
)

// What a person reads during a login.
const (
	noteScan    = "Scan the code with WeChat on your phone and confirm there. If WeChat says that its version is too old, add the plug-in first: Me > Settings > Plugins."
	noteScanned = "The code was scanned. Confirm on the phone."
	noteFresh   = "The code has expired. Scan this new one with WeChat."
	noteBlocked = "The number was wrong too often. Scan this new code with WeChat."
	askCode     = "The number that WeChat shows on the phone"
	askCodeMore = "That number is wrong. The number that WeChat shows on the phone"
	askOther    = "The code was scanned by %s, who is not the person of this channel so far. Type yes to connect their WeChat and make them an owner"
)

// scan is a login under way.
type scan struct {
	bot    *bot
	dialog chat.Dialog
	force  bool
	every  time.Duration

	path    string
	old     record // the account so far, which stays until another one is confirmed
	code    string // of the QR code
	base    string // where it is asked for
	typed   string // the number that a person typed
	blocked bool   // the last code ended by numbers that were wrong
	done    chat.Result
}

// status is what a poll says about a QR code.
type status struct {
	Status string `json:"status"`
	Host   string `json:"redirect_host"`
	Token  string `json:"bot_token"`
	BotID  string `json:"ilink_bot_id"`
	UserID string `json:"ilink_user_id"`
	Base   string `json:"baseurl"`
}

// login connects a WeChat account by a QR code.
func login(ctx context.Context, d chat.Deps, section json.RawMessage, p chat.Dialog, force bool) (chat.Result, error) {
	b, err := newBot(d, section)
	if err != nil {
		return chat.Result{}, err
	}
	s := &scan{bot: b, dialog: p, force: force, every: statusWait}
	return s.run(ctx)
}

func (s *scan) run(ctx context.Context) (chat.Result, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, loginTime, errors.New("the code was not scanned in time: try again"))
	defer cancel()
	var err error
	if s.path, err = accountPath(s.bot.deps, s.bot.o); err != nil {
		return chat.Result{}, err
	}

	if s.old, err = readRecord(s.path); err != nil && !errors.Is(err, os.ErrNotExist) {
		s.bot.deps.Log.WarnContext(ctx, "account.json is damaged; this login replaces it", "err", err)
	}

	q := kit.QR{Dialog: s.dialog, Now: s.bot.deps.Now, Codes: 1 + refreshes, Seen: noteScanned, Show: s.show}
	err = q.Run(ctx)
	switch {
	case errors.Is(err, kit.ErrExpired) && s.blocked:
		return chat.Result{}, errors.New("the number was wrong too often: try again later")
	case errors.Is(err, kit.ErrExpired):
		return chat.Result{}, errors.New("the code expired too often: try again later")
	case err != nil:
		return chat.Result{}, err
	}

	return s.done, nil
}

// poll asks what became of the code. The service answers late if nothing happens.
func (s *scan) poll(ctx context.Context) (kit.Scan, error) {
	var st status
	err := s.bot.client.get(ctx, statusTime, s.base, s.query(), &st)
	if ctx.Err() != nil { // before anything that came meanwhile
		return kit.ScanWaits, ctx.Err()
	}
	if err != nil && chat.IsPermanent(classify(err)) {
		return kit.ScanWaits, err
	}
	return s.step(ctx, st) // without a status it goes on waiting
}

func (s *scan) query() string {
	q := "get_qrcode_status?qrcode=" + url.QueryEscape(s.code)
	if s.typed != "" {
		q += "&verify_code=" + url.QueryEscape(s.typed)
	}
	return q
}

// step does what a status asks for.
func (s *scan) step(ctx context.Context, st status) (kit.Scan, error) {
	switch st.Status {
	case "scaned":
		s.typed = ""
		return kit.ScanSeen, nil
	case "scaned_but_redirect":
		s.redirect(ctx, st.Host)
	case "need_verifycode":
		return kit.ScanWaits, s.askNumber(ctx)
	case "verify_code_blocked":
		s.blocked = true
		return kit.ScanExpired, nil
	case "expired":
		s.blocked = false
		return kit.ScanExpired, nil
	case "binded_redirect":
		old := effective(s.old, s.bot.o)
		if s.force || old.Token == "" {
			return kit.ScanWaits, fmt.Errorf("this WeChat account is connected to a bot already, and its login is not here: run nanobot channels login %s --force", s.bot.deps.Name)
		}
		s.done = chat.Result{Identity: old.BotID, Owner: old.UserID}
		return kit.ScanConfirmed, nil

	case "confirmed":
		return kit.ScanConfirmed, s.confirm(ctx, st)
	}
	return kit.ScanWaits, nil
}

// askNumber asks for the number that WeChat shows.
func (s *scan) askNumber(ctx context.Context) error {
	question := askCode
	if s.typed != "" {
		question = askCodeMore
	}

	typed, err := s.dialog.Ask(ctx, chat.Question{Text: question})
	if err != nil {
		return err
	}

	s.typed = strings.TrimSpace(typed)
	return nil
}

// show asks for a QR code.
func (s *scan) show(ctx context.Context, n int) (kit.Code, error) {
	s.base = s.bot.o.codeBase()
	s.typed = ""
	known := []string{}
	for _, t := range []string{s.old.Token, strings.TrimSpace(s.bot.o.Token.Reveal())} {
		if t != "" && !s.force && !slices.Contains(known, t) {
			known = append(known, t)
		}
	}

	var code struct {
		ID  string `json:"qrcode"`
		URL string `json:"qrcode_img_content"`
	}
	ask := func(known []string) error {
		return s.bot.client.post(ctx, callTime, session{base: s.base}, "get_bot_qrcode?bot_type=3", object{"local_token_list": known}, &code)
	}
	err := ask(known)
	if refusedAs(err, codeInvalid) && len(known) > 0 { // it does not know one of them any more
		err = ask([]string{})
	}
	if err == nil && code.ID == "" {
		err = errors.New("the service sent none")
	}

	if err != nil {
		return kit.Code{}, fmt.Errorf("ask for a QR code: %w", err)
	}

	if code.URL == "" {
		code.URL = code.ID
	}

	s.code = code.ID

	note := noteScan
	switch {
	case n > 0 && s.blocked:
		note = noteBlocked
	case n > 0:
		note = noteFresh
	}
	return kit.Code{Step: chat.Step{QR: code.URL, URL: code.URL, Note: note}, Every: s.every, Poll: s.poll}, nil
}

// redirect goes on at the data centre of the account.
func (s *scan) redirect(ctx context.Context, host string) {
	if host == "" {
		return
	}

	if !strings.Contains(host, "://") {
		host = "https://" + host
	}

	if host = strings.TrimRight(host, "/"); !s.bot.o.trusts(host) {
		s.bot.once.Warn(ctx, "redirect", "the service named an address that is not WeChat's; it is not used", "address", host)
		return
	}
	s.base = host
}

// confirm replaces the account by the one that was confirmed.
func (s *scan) confirm(ctx context.Context, st status) error {
	o := s.bot.o
	if st.Token == "" || st.BotID == "" {
		return errors.New("the login was confirmed, but the service sent no token: try again")
	}
	if err := s.approve(ctx, st.UserID); err != nil {
		return err
	}

	fresh := record{
		Token:    strings.TrimSpace(st.Token),
		BaseURL:  o.BaseURL,
		BotID:    st.BotID,
		UserID:   st.UserID,
		Contexts: map[string]string{},
		Tickets:  map[string]*ticket{},
	}
	if st.Base = strings.TrimRight(st.Base, "/"); st.Base != "" {
		if o.trusts(st.Base) {
			fresh.BaseURL = st.Base
		} else {
			s.bot.once.Warn(ctx, "base", "the service named an address that is not WeChat's; it is not used", "address", st.Base)
		}
	}

	if s.old.Token == fresh.Token { // nothing has changed
		fresh.Cursor = s.old.Cursor
		fresh.Contexts = s.old.Contexts
		fresh.Tickets = s.old.Tickets
		fresh.Spent = s.old.Spent
	}

	if own := strings.TrimSpace(o.Token.Reveal()); own != "" && own != fresh.Token {
		fresh.Replaced = fingerprint(own)
	}

	if err := writeRecord(s.path, &fresh); err != nil {
		return err
	}

	s.done = chat.Result{Identity: st.BotID, Owner: st.UserID}
	if !o.Enabled {
		s.done.Patch = map[string]any{"enabled": true}
	}
	return nil
}

// approve asks before a person joins whom the channel does not know: whoever
// scans the code becomes an owner.
func (s *scan) approve(ctx context.Context, user string) error {
	o := s.bot.o
	known := slices.Concat(o.Owners, o.AllowFrom, []string{s.old.UserID})
	known = slices.DeleteFunc(known, func(id string) bool { return id == "" || id == "*" })
	if len(known) == 0 || slices.Contains(known, user) {
		return nil
	}

	answer, err := s.dialog.Ask(ctx, chat.Question{Text: fmt.Sprintf(askOther, user)})
	if err != nil {
		return err
	}
	if !strings.EqualFold(strings.TrimSpace(answer), "yes") {
		return errors.New("the code was scanned by another person; the account so far stays")
	}
	return nil
}

// logout forgets the account. The service has no call for it.
func logout(_ context.Context, d chat.Deps, section json.RawMessage) error {
	o, err := chat.Read(section, defaults())
	if err != nil {
		return err
	}

	path, err := accountPath(d, o)
	if err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove the account: %w", err)
	}
	if !o.Token.IsZero() {
		return fmt.Errorf("the login is removed; remove channels.%s.token from the configuration as well", d.Name)
	}
	return nil
}

// probe looks whether the token is still valid.
func probe(ctx context.Context, d chat.Deps, section json.RawMessage) (chat.Report, error) {
	b, err := newBot(d, section)
	if err != nil {
		return chat.Report{}, err
	}

	path, err := accountPath(d, b.o)
	if err != nil {
		return chat.Report{}, err
	}

	r, err := readRecord(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return chat.Report{}, fmt.Errorf("read %s: %w", path, err)
	}

	r = effective(r, b.o)
	if r.Token == "" {
		return chat.Report{Checks: []chat.Check{{Name: "login", Detail: "no WeChat account is connected: run nanobot channels login " + d.Name}}}, nil
	}

	user := r.UserID
	for id := range r.Contexts {
		if user == "" {
			user = id
		}
	}

	check := chat.Check{Name: "login", OK: true, Detail: path}
	_, err = b.configure(ctx, session{r.BaseURL, httpsafe.NewSecret(r.Token)}, user, r.Contexts[user])
	switch {
	case refusedAs(err, codeStale):
		check.OK, check.Detail = false, "the login of WeChat has expired: run nanobot channels login "+d.Name
	case err != nil && refusal(err) == nil:
		check.OK, check.Detail = false, chat.Explain(err).Error()
	}
	return chat.Report{Identity: r.BotID, Checks: []chat.Check{check}}, nil
}
