package interop

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rshub/rshub/test/ports"
)

// identity is a certificate for localhost, with the authority that made it.
type identity struct {
	authority       *x509.Certificate
	ca, cert, key   string // files; cert holds the chain
	certAndKey      string // one file of both, as haproxy wants it
	pair            tls.Certificate
	trustsAuthority []string // variables that make Go programs trust it
}

func newIdentity(t *testing.T) *identity {
	t.Helper()
	dir := t.TempDir()
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "interop"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, &caKey.PublicKey, caKey)
	must(t, err)
	ca, err = x509.ParseCertificate(caDER)
	must(t, err)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "localhost"}, DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, ca, &key.PublicKey, caKey)
	must(t, err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	block := func(kind string, der []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}) }
	write := func(name string, content []byte) string {
		name = filepath.Join(dir, name)
		must(t, os.WriteFile(name, content, 0o600))
		return name
	}
	certPEM, keyPEM := block("CERTIFICATE", der), block("PRIVATE KEY", keyDER)
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	must(t, err)
	id := &identity{
		authority: ca, ca: write("ca.pem", block("CERTIFICATE", caDER)), cert: write("cert.pem", certPEM), key: write("key.pem", keyPEM),
		certAndKey: write("both.pem", append(certPEM, keyPEM...)), pair: pair,
	}
	id.trustsAuthority = []string{"SSL_CERT_FILE=" + id.ca}
	return id
}

// delivery is one POST that a receiver got.
type delivery struct {
	header http.Header
	body   []byte
}

// receiver is a callback that confirms everything, and sends 103 before each answer
// to a delivery if early is set.
type receiver struct {
	url   string
	early bool
	mu    sync.Mutex
	got   []delivery
}

// newReceiver serves by https where id is not nil.
func newReceiver(t *testing.T, id *identity) *receiver {
	t.Helper()
	r := &receiver{}
	s := httptest.NewUnstartedServer(r)
	if id != nil {
		s.TLS = &tls.Config{Certificates: []tls.Certificate{id.pair}}
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	r.url = s.URL + "/callback"
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if req.Method == http.MethodGet {
		_, _ = io.WriteString(w, req.URL.Query().Get("hub.challenge"))
		return
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return
	}
	if r.early {
		w.Header().Set("Link", "</style.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got = append(r.got, delivery{req.Header.Clone(), body})
	w.WriteHeader(http.StatusNoContent)
}

// delivered waits until these bytes have come, signed with the secret.
func (r *receiver) delivered(t *testing.T, body []byte, secret string) {
	t.Helper()
	eventually(t, func() error {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, d := range r.got {
			if !bytes.Equal(d.body, body) {
				continue
			}
			if want := sign(secret, body); d.header.Get("X-Hub-Signature") != want {
				return fmt.Errorf("signed %q, want %q", d.header.Get("X-Hub-Signature"), want)
			}
			return nil
		}
		return fmt.Errorf("%d bytes were not delivered; %d deliveries came", len(body), len(r.got))
	})
}

func sign(secret string, body []byte) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}

// intervals makes intervals that follow each other.
type intervals struct{ n int }

// next returns a notification of entries changes, each with a URL of at least length
// characters, and its interval.
func (i *intervals) next(entries, length int) []byte {
	at := func(n int) string {
		return time.Date(2026, 1, 1, 0, n, 0, 0, time.UTC).Format("2006-01-02T15:04:05Z")
	}
	from, until := at(i.n), at(i.n+1)
	i.n++
	var b bytes.Buffer
	fmt.Fprintf(&b, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<urlset xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\" xmlns:rs=\"http://www.openarchives.org/rs/terms/\">\n"+
		"<rs:md capability=\"change-notification\" from=\"%s\" until=\"%s\"/>\n", from, until)
	for n := range entries {
		fmt.Fprintf(&b, "<url><loc>http://localhost:8000/data/%d/%s</loc><rs:md change=\"updated\" datetime=\"%s\"/></url>\n", n, strings.Repeat("x", length), from)
	}
	b.WriteString("</urlset>\n")
	return b.Bytes()
}

const (
	topic = "http://localhost:8000/changes/"
	token = "a token that is long enough for anybody"
)

// hub is a hub that accepts publishes of topic with token.
type hub struct {
	*process
	addr, admin, url string
	args             []string
}

// startHub starts a hub with a public URL. If that is empty, it is the URL of its address.
func startHub(t *testing.T, publicURL string, args ...string) *hub {
	t.Helper()
	h := &hub{addr: ports.Addr(), admin: ports.Addr(), url: publicURL}
	if h.url == "" {
		h.url = "http://" + h.addr + "/"
	}
	dir := t.TempDir()
	sum := sha256.Sum256([]byte(token))
	publishers := filepath.Join(dir, "publishers.yaml")
	must(t, os.WriteFile(publishers, fmt.Appendf(nil, "publishers:\n  - name: interop\n    topics: [\"http://localhost:8000/*\"]\n    token_sha256: [%x]\n", sum), 0o600))
	h.args = append([]string{
		"serve", "--listen", h.addr, "--admin-listen", h.admin, "--public-url", h.url, "--data-dir", filepath.Join(dir, "data"), "--publishers-file", publishers,
		"--allow-cidr", "127.0.0.0/8", "--topic-check", "warn", "--verify-budget", "0", "--retry-first", "200ms", "--log-format", "json",
	}, args...)
	h.start(t)
	return h
}

func (h *hub) start(t *testing.T) {
	t.Helper()
	h.process = start(t, t.TempDir(), nil, command("rshub"), h.args...)
	h.listens(h.addr)
	h.listens(h.admin)
}

// active waits until n subscriptions are active.
func (h *hub) active(t *testing.T, n int) {
	t.Helper()
	eventually(t, func() error {
		a, err := try(t.Context(), http.DefaultClient, http.MethodGet, "http://"+h.admin+"/api/v1/subscriptions", nil)
		if err != nil {
			return err
		}
		var page struct {
			Items []struct{ State string }
		}
		if err := json.Unmarshal(a.body, &page); err != nil {
			return err
		}
		have := 0
		for _, s := range page.Items {
			if s.State == "active" {
				have++
			}
		}
		if have != n {
			return fmt.Errorf("%d subscriptions are active, want %d: %s", have, n, a.body)
		}
		return nil
	})
}

// publish posts a notification of topic to the hub at url.
func (h *hub) publish(t *testing.T, c *http.Client, url string, body io.Reader, header ...string) *answer {
	t.Helper()
	return ask(t, c, http.MethodPost, url, body, append([]string{
		"Content-Type", "application/xml", "Authorization", "Bearer " + token,
		"Link", fmt.Sprintf(`<%s>; rel="self", <%s>; rel="hub"`, topic, h.url),
	}, header...)...)
}

// source is rspub over a folder.
type source struct {
	*process
	dir, addr, url string
}

// startSource publishes files (name and content) below a public URL. If that is empty, it is the
// URL of its address.
func startSource(t *testing.T, publicURL string, files map[string]string, args ...string) *source {
	t.Helper()
	s := &source{dir: t.TempDir(), addr: ports.Addr(), url: publicURL}
	if s.url == "" {
		s.url = "http://" + s.addr + "/"
	}
	for name, content := range files {
		s.write(t, name, content)
	}
	s.process = start(t, t.TempDir(), nil, command("rspub"), append([]string{
		"serve", "--dir", s.dir, "--listen", s.addr, "--public-url", s.url, "--state-dir", t.TempDir(), "--allow-cidr", "127.0.0.0/8",
		"--settle", "100ms", "--every", "100ms", "--list-every", "1s", "--dump-every", "1s", "--archive-every", "1s", "--log-format", "json",
	}, args...)...)
	s.listens(s.addr)
	return s
}

func (s *source) write(t *testing.T, name, content string) {
	t.Helper()
	name = filepath.Join(s.dir, name)
	must(t, os.MkdirAll(filepath.Dir(name), 0o755))
	must(t, os.WriteFile(name, []byte(content), 0o644))
}

// lists waits until a document of the Source contains each of the texts.
func lists(t *testing.T, c *http.Client, url string, texts ...string) {
	t.Helper()
	eventually(t, func() error {
		a, err := try(t.Context(), c, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		for _, text := range texts {
			if a.status != http.StatusOK || !strings.Contains(string(a.body), text) {
				return fmt.Errorf("%s answers %d without %q: %s", url, a.status, text, tail(string(a.body)))
			}
		}
		return nil
	})
}

// changed waits until the Source's Change Lists contain each of the texts, however many lists there
// are.
func (s *source) changed(t *testing.T, texts ...string) {
	t.Helper()
	eventually(t, func() error {
		all := ""
		for _, url := range s.changeLists(t) {
			a, err := try(t.Context(), http.DefaultClient, http.MethodGet, url, nil)
			if err != nil {
				return err
			}
			all += string(a.body)
		}
		for _, text := range texts {
			if !strings.Contains(all, text) {
				return fmt.Errorf("the Change Lists lack %q: %s", text, tail(all))
			}
		}
		return nil
	})
}

// changeLists are the URLs of the Source's Change Lists, the newest last, without the index that
// names them.
func (s *source) changeLists(t *testing.T) []string {
	t.Helper()
	if index := s.changeListIndex(t); index != "" {
		return locs(t, index)
	}
	return []string{s.url + "changelist.xml"}
}

// changeListIndex is the URL of the Change List Index that the Capability List names,
// or "".
func (s *source) changeListIndex(t *testing.T) string {
	t.Helper()
	a := ask(t, http.DefaultClient, http.MethodGet, s.url+"capabilitylist.xml", nil)
	for _, m := range regexp.MustCompile(`(?s)<loc>([^<]+)</loc>\s*<rs:md capability="changelist"`).FindAllSubmatch(a.body, -1) {
		if b := ask(t, http.DefaultClient, http.MethodGet, string(m[1]), nil); strings.Contains(string(b.body), "<sitemapindex") {
			return string(m[1])
		}
	}
	return ""
}

// locs are the URLs of a document's entries.
func locs(t *testing.T, url string) []string {
	t.Helper()
	a := ask(t, http.DefaultClient, http.MethodGet, url, nil).want(t, http.StatusOK)
	var all []string
	for _, m := range regexp.MustCompile(`<loc>([^<]+)</loc>`).FindAllSubmatch(a.body, -1) {
		all = append(all, strings.ReplaceAll(string(m[1]), "&amp;", "&"))
	}
	return all
}

// rotated changes the Source until it has an index of Change Lists, and waits until
// each change is in its Resource List.
func (s *source) rotated(t *testing.T) {
	t.Helper()
	for i := range 8 {
		name := fmt.Sprintf("later-%d.txt", i)
		s.write(t, name, name)
		s.changed(t, name)
	}
	lists(t, http.DefaultClient, s.url+"resourcelist.xml", "later-7.txt")
}
