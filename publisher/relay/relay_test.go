package relay

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"

	"go.uber.org/goleak"

	"github.com/rshub/rshub/publisher/source"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// accept records nothing, and says that it did.
func accept(all []source.Announcement) ([]source.Receipt, error) {
	receipts := make([]source.Receipt, len(all))
	for i := range all {
		receipts[i] = source.Receipt{Last: 1, Changes: len(all[i].Changes)}
	}
	return receipts, nil
}

// bed is a Relay before a Source whose documents nobody writes.
type bed struct {
	*httptest.Server
	t      *testing.T
	source *source.Source
	counts map[Outcome]*atomic.Int64
}

func newBed(t *testing.T, change func(*Options)) *bed {
	s, err := source.Open(source.Options{
		PublicURL: "https://sync.example.org/", StateDir: filepath.Join(t.TempDir(), "state"), Sets: []source.Set{{Announced: true}},
	})
	if err != nil {
		t.Fatal(err)
	}
	b := &bed{t: t, source: s, counts: map[Outcome]*atomic.Int64{}}
	for _, o := range Outcomes() {
		b.counts[o] = &atomic.Int64{}
	}
	o := Options{
		Record: func(all []source.Announcement) ([]source.Receipt, error) {
			return s.Announce("", all...)
		},
		Prefixes: prefixes, Hint: "how to", Counted: func(o Outcome) { b.counts[o].Add(1) },
	}
	if change != nil {
		change(&o)
	}
	b.Server = httptest.NewServer(New(o).Handler())
	t.Cleanup(func() {
		b.Close()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// send sends a request with headers of "Name: value".
func (b *bed) send(method, body string, headers ...string) (status int, answer string, head http.Header) {
	b.t.Helper()
	req, err := http.NewRequestWithContext(b.t.Context(), method, b.URL+"/", strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		if name == "Host" {
			req.Host = value
			continue
		}
		req.Header.Add(name, value)
	}
	resp, err := b.Client().Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return resp.StatusCode, string(text), resp.Header
}

// last is the number of the last change that is recorded.
func (b *bed) last() uint64 {
	b.t.Helper()
	all, err := b.source.Announce("", source.Announcement{})
	if err != nil {
		b.t.Fatal(err)
	}
	return all[0].Last
}

const (
	asJSON = "Content-Type: application/json"
	asForm = "Content-Type: application/x-www-form-urlencoded"
	one    = `{"change":"updated","url":"https://example.org/a"}`
)

// A repeated request gets the first answer, byte for byte, and records nothing. Another request
// of that name is refused.
func TestRepeated(t *testing.T) {
	b := newBed(t, nil)
	status, first, _ := b.send("POST", "["+one+","+one+"]", asJSON, "Idempotency-Key: k")
	if status != http.StatusOK || !strings.HasPrefix(first, `{"seq":2,"changes":2,"datetime":"`) {
		t.Fatalf("%d %s", status, first)
	}
	if status, other, _ := b.send("POST", one, asJSON, "Idempotency-Key: another"); status != http.StatusOK || other == first {
		t.Errorf("%d %s", status, other)
	}
	for _, key := range []string{"k", `"k"`} {
		if status, again, _ := b.send("POST", "[ "+one+", "+one+" ]", asJSON, "Idempotency-Key: "+key); status != http.StatusOK || again != first {
			t.Errorf("it is repeated: %d %s, and was %s", status, again, first)
		}
	}
	for _, body := range []string{one, "[" + one + "," + strings.ReplaceAll(one, "/a", "/b") + "]"} {
		if status, answer, _ := b.send("POST", body, asJSON, "Idempotency-Key: k"); status != http.StatusUnprocessableEntity || !strings.Contains(answer, "was used for another request") {
			t.Errorf("%s: %d %s", body, status, answer)
		}
	}
	if n := b.last(); n != 3 {
		t.Errorf("%d changes were recorded", n)
	}
	if b.counts[Recorded].Load() != 2 || b.counts[Repeated].Load() != 2 || b.counts[Refused].Load() != 2 {
		t.Errorf("%v", b.counts)
	}
}

// Requests that differ in any field are different.
func TestSum(t *testing.T) {
	const more = `{"change":"updated","url":"https://example.org/a","length":1,"type":"text/html","encoding":"gzip","lastmod":"2026-01-02",` +
		`"hash":"sha-1:da39a3ee5e6b4b0d3255bfef95601890afd80709","links":[{"rel":"alternate","href":"https://example.org/b"}]}`
	sums := map[[32]byte]string{}
	for _, change := range []string{
		"", "updated>created", "org/a>org/b", ":1,>:2,", "html>plain", "gzip>br", "-02>-03", "da39>da38", "sha-1:da39a3ee5e6b4b0d3255bfef95601890afd80709>" + someMD5, "alternate>canonical", "length\":1,>length\":0,",
	} {
		from, to, _ := strings.Cut(change, ">")
		all, err := parseJSON([]byte(strings.Replace(more, from, to, 1)), prefixes)
		if err != nil {
			t.Fatal(err)
		}
		sum := announcement("k", all).Sum
		if was, ok := sums[sum]; ok {
			t.Errorf("%q has the sum of %q", change, was)
		}
		sums[sum] = change
	}
}

// Nothing of a request with a mistake is recorded, and its name is free.
func TestAllOrNothing(t *testing.T) {
	b := newBed(t, nil)
	for _, tc := range []struct {
		status     int
		body, want string
		headers    []string
	}{
		{400, "{", "it is not JSON", []string{asJSON}},
		{422, "[" + one + `,{"change":"updated","url":"https://other.example/"}]`, "change 2 of the list", []string{asJSON}},
		{422, "change=updated", `"url" is missing`, []string{asForm}},
		{415, one, "send a form", nil},
		{415, one, "send a form", []string{"Content-Type: text/plain"}},
		{415, one, "send a form", []string{"Content-Type: application/json; charset=latin1"}},
		{415, one, "send a form", []string{asJSON, "Content-Encoding: gzip"}},
		{413, strings.Repeat(" ", MaxBytes) + one, "may have 4 MiB", []string{asJSON}},
		{400, one, "is empty", []string{asJSON, "Idempotency-Key: "}},
		{400, one, "has 256 bytes", []string{asJSON, "Idempotency-Key: " + strings.Repeat("x", 256)}},
		{400, one, "is there 2 times", []string{asJSON, "Idempotency-Key: a", "Idempotency-Key: b"}},
	} {
		if len(tc.headers) < 2 {
			tc.headers = append(tc.headers, "Idempotency-Key: k")
		}
		status, answer, _ := b.send("POST", tc.body, tc.headers...)
		var said struct{ Error string }
		if err := json.Unmarshal([]byte(answer), &said); err != nil || status != tc.status || !strings.Contains(said.Error, tc.want) {
			t.Errorf("%.100s, %v: %d %s", tc.body, tc.headers, status, answer)
		}
	}
	if n := b.last(); n != 0 {
		t.Errorf("%d changes were recorded", n)
	}
	if status, answer, _ := b.send("POST", one, asJSON, "Idempotency-Key: k"); status != http.StatusOK {
		t.Errorf("the name is not free: %d %s", status, answer)
	}
}

// A page of another origin can make a browser send a form, and can point its own name here.
func TestBrowsersAreRefused(t *testing.T) {
	b := newBed(t, nil)
	const form = "change=updated&url=https://example.org/a"
	for _, tc := range []struct {
		status  int
		headers []string
	}{
		{403, []string{"Origin: https://evil.example", "Sec-Fetch-Site: cross-site"}},
		{403, []string{"Origin: https://evil.example"}},
		{403, []string{"Origin: null"}},
		{403, []string{"Host: evil.example", "Origin: http://evil.example", "Sec-Fetch-Site: same-origin"}},
		{421, []string{"Host: evil.example"}},
		{421, []string{"Host: evil.example:80"}},
		{200, []string{"Host: localhost:1234"}},
		{200, []string{"Host: [::1]"}},
	} {
		if status, answer, _ := b.send("POST", form, append(tc.headers, asForm)...); status != tc.status {
			t.Errorf("%v: %d %s", tc.headers, status, answer)
		}
	}
	if status, answer, _ := b.send("GET", "", "Host: evil.example"); status != http.StatusMisdirectedRequest || strings.Contains(answer, "--") {
		t.Errorf("%d %s", status, answer)
	}
	if n := b.last(); n != 2 {
		t.Errorf("%d changes were recorded", n)
	}
}

// With a token any Host will do, except for a browser.
func TestToken(t *testing.T) {
	b := newBed(t, func(o *Options) { o.Token = func() string { return "a-token-of-16-chars" } })
	for _, tc := range []struct {
		status  int
		headers []string
	}{
		{401, nil},
		{401, []string{"Authorization: Bearer another-one-of-16"}},
		{401, []string{"Authorization: Basic a-token-of-16-chars"}},
		{401, []string{"Authorization: a-token-of-16-chars"}},
		{200, []string{"Authorization: Bearer a-token-of-16-chars", "Host: app.internal"}},
		{200, []string{"Authorization: bearer  a-token-of-16-chars"}},
		{403, []string{"Authorization: Bearer a-token-of-16-chars", "Origin: https://evil.example"}},
	} {
		status, answer, head := b.send("POST", one, append(tc.headers, asJSON)...)
		if status != tc.status || (head.Get("WWW-Authenticate") != "") != (status == http.StatusUnauthorized) {
			t.Errorf("%v: %d %s", tc.headers, status, answer)
		}
	}
	if status, answer, _ := b.send("GET", ""); status != http.StatusUnauthorized || strings.Contains(answer, "--") { // the relay may be part of any program
		t.Errorf("GET: %d %s", status, answer)
	}
}

// Other methods and paths, and what the disk cannot do now.
func TestOtherAnswers(t *testing.T) {
	b := newBed(t, nil)
	if status, answer, _ := b.send("GET", ""); status != http.StatusOK || answer != "how to" {
		t.Errorf("GET: %d %s", status, answer)
	}
	if status, _, head := b.send("PUT", one, asJSON); status != http.StatusMethodNotAllowed || head.Get("Allow") == "" {
		t.Errorf("PUT: %d", status)
	}
	b.URL += "/other"
	if status, _, _ := b.send("POST", one, asJSON); status != http.StatusNotFound {
		t.Errorf("another path: %d", status)
	}
	for _, tc := range []struct {
		err  error
		want string
	}{{errors.New("no space left"), "cannot be recorded now: no space left"}, {source.ErrClosed, "shutting down"}} {
		b := newBed(t, func(o *Options) {
			o.Record = func([]source.Announcement) ([]source.Receipt, error) { return nil, tc.err }
		})
		status, answer, head := b.send("POST", one, asJSON)
		if status != http.StatusServiceUnavailable || head.Get("Retry-After") == "" || !strings.Contains(answer, tc.want) || b.counts[Failed].Load() != 1 {
			t.Errorf("%d %s", status, answer)
		}
	}
}

// A body that did not arrive is to be sent again: nothing is wrong with the request.
func TestBodyDoesNotArrive(t *testing.T) {
	r := New(Options{Prefixes: prefixes, Record: accept, Socket: true})
	for err, want := range map[error]int{
		os.ErrDeadlineExceeded:        http.StatusServiceUnavailable,
		io.ErrUnexpectedEOF:           http.StatusServiceUnavailable,
		errors.New("malformed chunk"): http.StatusBadRequest,
	} {
		req := httptest.NewRequestWithContext(t.Context(), "POST", "/", io.MultiReader(strings.NewReader(one[:5]), iotest.ErrReader(err)))
		req.Header.Set("Content-Type", jsonType)
		w := httptest.NewRecorder()
		r.Handler().ServeHTTP(w, req)
		if w.Code != want || (w.Header().Get("Retry-After") != "") != (want == http.StatusServiceUnavailable) {
			t.Errorf("%v: %d %s", err, w.Code, w.Body)
		}
	}
}

// Many requests at once are all recorded, each once, and answered with numbers of their own.
func TestManyAtOnce(t *testing.T) {
	b := newBed(t, nil)
	const many = 64
	answers := make([]string, many)
	var wg sync.WaitGroup
	for i := range many {
		wg.Go(func() { _, answers[i], _ = b.send("POST", one, asJSON) })
	}
	wg.Wait()
	seen := map[uint64]bool{}
	for _, text := range answers {
		var a answer
		if err := json.Unmarshal([]byte(text), &a); err != nil || a.Seq < 1 || a.Seq > many || seen[a.Seq] {
			t.Errorf("%s: %v", text, err)
		}
		seen[a.Seq] = true
	}
	if n := b.last(); n != many {
		t.Errorf("%d changes were recorded", n)
	}
}

// Lines are answered in their order, those with mistakes as well. A repeated id is answered as
// it was, whether it came in a line or over HTTP.
func TestLines(t *testing.T) {
	b := newBed(t, nil)
	writes := 0
	r := New(Options{Prefixes: prefixes, Record: func(all []source.Announcement) ([]source.Receipt, error) {
		writes++
		return b.source.Announce("", all...)
	}})
	in := `{"id":"1","change":"created","url":"https://example.org/a"}
{"id":"2","change":"created","url":"https://other.example/a"}

{"id":"1","change":"created","url":"https://example.org/a"}
{"id":"1","change":"deleted","url":"https://example.org/a"}
` + strings.Repeat("x", MaxBytes+1) + `
{"change":"created","url":"https://example.org/a"}` + "\r" + `
{"id":"3","changes":[` + one + `,` + one + `]}`
	for _, from := range []io.Reader{strings.NewReader(in), iotest.HalfReader(strings.NewReader(in))} {
		var out bytes.Buffer
		if err := r.Lines(from, &out); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		for i, want := range []string{
			`{"id":"1","seq":1,"changes":1,"datetime":"`, `{"id":"2","line":2,"error":"`, `{"line":3,"error":"it is not JSON`,
			`{"id":"1","seq":1,"changes":1,"datetime":"`, `{"id":"1","line":5,"error":"this name`, `{"line":6,"error":"a line may have 4 MiB`,
			`{"seq":`, `{"id":"3","seq":4,"changes":2,"datetime":"`,
		} {
			if len(lines) != 8 || !strings.HasPrefix(lines[i], want) {
				t.Errorf("line %d: %v, want %s", i+1, lines, want)
			}
		}
	}
	if writes >= 8 {
		t.Errorf("%d writes: lines that have arrived do not share one", writes)
	}
	if status, answer, _ := b.send("POST", `{"change":"created","url":"https://example.org/a"}`, asJSON, "Idempotency-Key: 1"); status != http.StatusOK || !strings.HasPrefix(answer, `{"seq":1,"changes":1,`) {
		t.Errorf("%d %s", status, answer)
	}
}

// The last line is answered, too, if it lacks its end and is too long.
func TestLastLineTooLong(t *testing.T) {
	r := New(Options{Prefixes: prefixes, Record: accept})
	var out bytes.Buffer
	if err := r.Lines(strings.NewReader(one+"\n"+strings.Repeat("x", MaxBytes+1)), &out); err != nil {
		t.Fatal(err)
	}
	if lines := strings.Split(strings.TrimSpace(out.String()), "\n"); len(lines) != 2 || !strings.HasPrefix(lines[1], `{"line":2,"error":"a line may have 4 MiB`) {
		t.Errorf("%q", lines)
	}
}

// A line is answered before the next one arrives, and an error of the disk is told for each.
func TestLineByLine(t *testing.T) {
	in, put := io.Pipe()
	get, out := io.Pipe()
	fail := errors.New("the disk is full")
	r := New(Options{Prefixes: prefixes, Record: func(all []source.Announcement) ([]source.Receipt, error) {
		if all[0].Name == "fail" {
			return nil, fail
		}
		return accept(all)
	}})
	done := make(chan error, 1)
	go func() { done <- r.Lines(in, out); _ = out.Close() }()
	answers := json.NewDecoder(get)
	for _, id := range []string{"a", "fail", "b"} {
		if _, err := io.WriteString(put, strings.Replace(one, "{", `{"id":"`+id+`",`, 1)+"\n"); err != nil {
			t.Fatal(err)
		}
		var a answer
		if err := answers.Decode(&a); err != nil || a.ID != id || (a.Error != "") != (id == "fail") {
			t.Errorf("%s: %+v, %v", id, a, err)
		}
	}
	_ = put.CloseWithError(io.ErrUnexpectedEOF)
	if err := <-done; !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
}
