package e2e

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rshub/rshub/subscriptions"
	"github.com/rshub/rshub/test/ports"
	"github.com/rshub/rshub/test/redistest"
)

// trial is a group of programs whose troubles are caused one after another.
type trial struct {
	name string
	// begin starts the programs, which are well, and returns what Prometheus reads of them by
	// job, and the troubles.
	begin func(t *testing.T) (targets map[string][]string, troubles []trouble)
}

// trouble is one that certain alerts are there for. Heal, which may be nil, ends it.
type trouble struct {
	alerts      []string
	cause, heal func()
}

// trials cause the trouble of every alert.
var trials = []trial{
	{"callback", alertsOfCallback},
	{"hosts", alertsOfHosts},
	{"fan-out", alertsOfFanOut},
	{"redis", alertsOfRedis},
	{"damage", alertsOfDamage},
	{"retention", alertsOfRetention},
	{"files", alertsOfFiles},
	{"upgrade", alertsOfUpgrade},
	{"source", alertsOfSource},
	{"watches", alertsOfWatches},
	{"destination", alertsOfDestination},
	{"disk", alertsOfDisk},
	{"rewritten", alertsOfRewritten},
}

// Every alert is quiet while all is well, and fires on a real Prometheus when its trouble is
// caused: on real hubs, Sources and Destinations.
func TestAlertsFire(t *testing.T) {
	if *alertsFlag == "" {
		t.Skip("it runs with -args -alerts=all")
	}
	if os.Getenv("E2E_NAMESPACE") == "" {
		inNamespace(t, "-test.timeout=0", "-alerts="+*alertsFlag) // for small file systems
		return
	}
	for _, tr := range trials {
		if *alertsFlag != "all" && *alertsFlag != tr.name {
			continue
		}
		t.Run(tr.name, func(t *testing.T) {
			targets, troubles := tr.begin(t)
			p := startPrometheus(t, targets)
			var all []string
			for _, x := range troubles {
				all = append(all, x.alerts...)
			}
			p.quiet(all)
			for i, x := range troubles {
				if i > 0 {
					p.quiet(x.alerts)
				}
				x.cause()
				p.fires(x.alerts)
				if x.heal != nil {
					x.heal()
				}
			}
		})
	}
}

// Each alert has a trial.
func TestAlertsHaveTrials(t *testing.T) {
	files, err := filepath.Glob("alerts_*test.go")
	must(t, err)
	var text []byte
	for _, name := range files {
		more, err := os.ReadFile(name)
		must(t, err)
		text = append(text, more...)
	}
	for _, name := range alertNames(t) {
		if !bytes.Contains(text, []byte(`{"`+name+`"`)) && !bytes.Contains(text, []byte(`, "`+name+`"`)) {
			t.Errorf("%s has no trial", name)
		}
	}
	rules, err := os.ReadFile(rulesPath)
	must(t, err)
	scale(t, string(rules))
}

// publishAll publishes to a topic again and again until the test ends.
func publishAll(t *testing.T, h *hub, topic string, every time.Duration) {
	t.Helper()
	src := newSource(topic)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	t.Cleanup(func() { cancel(); <-done })
	go func() {
		defer close(done)
		for body := src.next(0); wait(ctx, every); {
			if _, err := h.publishUntilAccepted(ctx, topic, body); err == nil {
				body = src.next(0)
			} else if strings.Contains(err.Error(), "a publish was answered") {
				t.Error(err)
			}
		}
	}()
}

func answering(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(status)
	}
}

func alertsOfCallback(t *testing.T) (map[string][]string, []trouble) {
	h := startHub(t, "--give-up=40s", "--retry-first=200ms", "--retry-max=1s")
	topic, r := "http://"+h.addr+"/topic", newReceiver(t, 1)
	h.subscribe(topic, r.url(0, "/cb")).want(t, http.StatusAccepted)
	h.active(1)
	publishAll(t, h, topic, 200*time.Millisecond)
	return map[string][]string{"rshub": {h.admin}}, []trouble{
		{[]string{"RshubDeliveriesFail", "RshubAboutToLose", "RshubFarBehind", "RshubGaps"}, func() { r.onPost(answering(http.StatusServiceUnavailable)) }, nil},
	}
}

func alertsOfHosts(t *testing.T) (map[string][]string, []trouble) {
	h := startHub(t, "--retry-first=200ms", "--retry-max=1s")
	topic, r := "http://"+h.addr+"/topic", newReceiver(t, 6)
	for n := range r.servers {
		h.subscribe(topic, r.url(n, "/cb")).want(t, http.StatusAccepted)
	}
	h.active(len(r.servers))
	publishAll(t, h, topic, 200*time.Millisecond)
	return map[string][]string{"rshub": {h.admin}}, []trouble{
		{[]string{"RshubHostsUnreachable"}, func() {
			for _, s := range r.servers[1:] {
				s.CloseClientConnections()
				s.Close()
			}
		}, nil},
	}
}

func alertsOfFanOut(t *testing.T) (map[string][]string, []trouble) {
	w := newWorld(t, 0)
	topic := w.addTopic()
	dir := filepath.Join(t.TempDir(), "data")
	rshub(t, "import", "--data-dir", dir, w.writeSubscriptions(3000))
	h := newHub(t, "--public-url", hubURL, "--max-inflight=4", "--per-host=4")
	h.dir = dir
	h.start()
	w.hubs = append(w.hubs, h)
	return map[string][]string{"rshub": {h.admin}}, []trouble{
		{[]string{"RshubSlowFanOut"}, func() {
			w.mu.Lock()
			w.slow = 100 * time.Millisecond
			w.mu.Unlock()
			for range 5 {
				must(t, topic.publish(t.Context()))
			}
		}, nil},
	}
}

func alertsOfRedis(t *testing.T) (map[string][]string, []trouble) {
	redis := redistest.Standalone(t)
	var hubs []*hub
	for n := range 2 {
		h := newHub(t, "--node-id", fmt.Sprint("hub-", n), "--redis-url", redis.URL(), "--redis-prefix", "alerts", "--owner-lease=5s", "--retry-first=200ms", "--retry-max=1s")
		if n > 0 {
			h.args = append(h.args, "--public-url", hubs[0].url())
		}
		h.start()
		hubs = append(hubs, h)
	}
	w := &world{t: t, hubs: hubs}
	w.awaitReady()
	topic, r := "http://"+hubs[0].addr+"/topic", newReceiver(t, 1)
	hubs[0].subscribe(topic, r.url(0, "/cb")).want(t, http.StatusAccepted)
	hubs[0].active(1)
	publishAll(t, hubs[0], topic, 20*time.Millisecond)
	stalled, stop := make(chan struct{}), make(chan struct{})
	return map[string][]string{"rshub": {hubs[0].admin, hubs[1].admin}}, []trouble{
		{[]string{"RshubSlowDisk"}, func() {
			for n := range 64 { // so many that many append at each moment
				publishAll(t, hubs[0], fmt.Sprintf("http://%s/%d", hubs[0].addr, n), 0)
			}
			go func() { // as a Redis whose disk stalls
				defer close(stalled)
				for {
					select {
					case <-stop:
						return
					case <-time.After(300 * time.Millisecond):
					}
					redis.Freeze(t)
					time.Sleep(1200 * time.Millisecond)
					redis.Continue(t)
				}
			}()
		}, func() { close(stop); <-stalled }},
		{[]string{"RshubNotReady", "RshubStoreErrors"}, func() {
			redis.Freeze(t)
		}, func() { redis.Continue(t); w.awaitReady() }},
		{[]string{"RshubUnreadable"}, func() {
			id := subscriptions.ID(topic, r.url(0, "/cb"))
			key := fmt.Sprintf("alerts:{r:%d}:subscriptions:%d", shardOf(id)%8, shardOf(id))
			if added := redis.Do(t, "HSET", key, string(id[:]), "damaged"); added != int64(0) {
				t.Fatalf("no subscription is stored in %s", key)
			}
			hubs[0].active(0)
		}, nil},
		{[]string{"RshubDown", "RshubHubMissing"}, hubs[1].kill, nil},
	}
}

func alertsOfDamage(t *testing.T) (map[string][]string, []trouble) {
	h := startHub(t, "--retry-first=200ms", "--retry-max=1s")
	src, r := newSource("http://"+h.addr+"/topic"), newReceiver(t, 1)
	h.subscribe(src.topic, r.url(0, "/cb")).want(t, http.StatusAccepted)
	h.active(1)
	bodies := filepath.Join(h.dir, "bodies")
	return map[string][]string{"rshub": {h.admin}}, []trouble{
		{[]string{"RshubPaused"}, func() {
			r.onPost(answering(http.StatusServiceUnavailable))
			h.accepted(src.topic, src.next(200<<10))
			h.terminate()
			must(t, os.Rename(bodies, bodies+" elsewhere"))
			h.start()
		}, func() {
			h.terminate()
			must(t, os.RemoveAll(bodies))
			must(t, os.Rename(bodies+" elsewhere", bodies))
			h.start()
		}},
		{[]string{"RshubDamage"}, func() {
			h.terminate()
			damaged := 0
			must(t, filepath.WalkDir(bodies, func(name string, d fs.DirEntry, err error) error {
				if err != nil || d.IsDir() {
					return err
				}
				body, err := os.ReadFile(name)
				if err != nil || len(body) < 100<<10 {
					return err
				}
				body[len(body)/2] ^= 1
				damaged++
				return os.WriteFile(name, body, 0o600)
			}))
			if damaged != 1 {
				t.Fatalf("%d bodies were damaged", damaged)
			}
			h.start()
		}, nil},
	}
}

func alertsOfRetention(t *testing.T) (map[string][]string, []trouble) {
	h := startHub(t, "--retention-total=1MiB", "--retention-bytes=1MiB")
	src := newSource("http://" + h.addr + "/topic")
	h.accepted(src.topic, src.next(0))
	return map[string][]string{"rshub": {h.admin}}, []trouble{
		{[]string{"RshubRetentionUsed"}, func() {
			for range 14 {
				h.accepted(src.topic, src.next(70<<10))
			}
		}, nil},
	}
}

// certify writes a certificate that runs out after some days, and its key.
func certify(t *testing.T, cert, key string, days int) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), DNSNames: []string{"localhost"}, IPAddresses: []net.IP{{127, 0, 0, 1}},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(0, 0, days),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	must(t, err)
	packed, err := x509.MarshalPKCS8PrivateKey(private)
	must(t, err)
	must(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: packed}), 0o600))
	must(t, os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
}

// end is one of the programs rspub and rssub.
type end struct {
	*process
	addr, admin string
}

func newEnd(t *testing.T, args ...string) *end {
	t.Helper()
	e := &end{addr: ports.Addr(), admin: ports.Addr()}
	e.process = newProcess(t, args[0], append(append([]string{command(args[0])}, args[1:]...),
		"--listen", e.addr, "--admin-listen", e.admin, local, "--log-format", "json")...)
	return e
}

// newSourceEnd is rspub over a folder.
func newSourceEnd(t *testing.T, dir, state, hub string, more ...string) *end {
	t.Helper()
	e := newEnd(t, append([]string{"rspub", "serve", "--dir", dir, "--state-dir", state, "--hub", hub, "--settle", "10ms", "--every", "100ms", "--list-every", "1s"}, more...)...)
	e.args = append(e.args, "--public-url", "http://"+e.addr+"/")
	return e
}

// newCopyEnd is rssub with a copy of a Source.
func newCopyEnd(t *testing.T, source, dir string, more ...string) *end {
	t.Helper()
	e := newEnd(t, append([]string{"rssub", "follow", source, "--dir", dir}, more...)...)
	e.args = append(e.args, "--callback-url", "http://"+e.addr+"/")
	return e
}

func alertsOfFiles(t *testing.T) (map[string][]string, []trouble) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	certify(t, at("cert"), at("key"), 90)
	must(t, os.WriteFile(at("token"), []byte(operatorToken), 0o600))
	must(t, os.WriteFile(at("publishers"), []byte("publishers: []\n"), 0o600))
	h := startHub(t, "--publishers-file", at("publishers"))
	secure := startHub(t, "--tls-cert", at("cert"), "--tls-key", at("key"))
	guarded := startHub(t, "--admin-token-file", at("token"))
	source := newSourceEnd(t, t.TempDir(), t.TempDir(), h.url(), "--tls-cert", at("cert"), "--tls-key", at("key"))
	source.start()
	plain := newSourceEnd(t, t.TempDir(), t.TempDir(), h.url())
	plain.start()
	copied := newCopyEnd(t, "http://"+plain.addr+"/", t.TempDir(), "--tls-cert", at("cert"), "--tls-key", at("key"))
	copied.start()
	return map[string][]string{"rshub": {h.admin, secure.admin, guarded.admin}, "rspub": {source.admin}, "rssub": {copied.admin}}, []trouble{
		{[]string{"RshubReloadFailed"}, func() { must(t, os.WriteFile(at("publishers"), []byte("publishers: nonsense\n"), 0o600)) }, nil},
		{[]string{"RshubCertificateEnds", "RspubCertificateEnds", "RssubCertificateEnds"}, func() { certify(t, at("cert"), at("key"), 10) }, nil},
		{[]string{"RshubTokenGuesses"}, func() {
			for n := range 25 {
				_, _ = try(t.Context(), http.MethodGet, "http://"+guarded.admin+"/api/v1/info", http.Header{"Authorization": {fmt.Sprint("Bearer guess", n)}}, nil)
			}
		}, nil},
	}
}

// alertsOfUpgrade starts with a hub on a new store, and then puts a store of the version
// before in its place.
func alertsOfUpgrade(t *testing.T) (map[string][]string, []trouble) {
	h := startHub(t)
	return map[string][]string{"rshub": {h.admin}}, []trouble{
		{[]string{"RshubUpgradePending"}, func() {
			h.terminate()
			must(t, os.RemoveAll(h.dir))
			h.binary = versionBefore(t)
			h.start()
			h.terminate()
			h.binary = ""
			h.start()
		}, nil},
	}
}

// write puts n files into a folder.
func write(t *testing.T, dir, name string, n int) {
	t.Helper()
	for i := range n {
		must(t, os.WriteFile(filepath.Join(dir, fmt.Sprint(name, i)), fmt.Append(nil, name, i, time.Now()), 0o600))
	}
}

func alertsOfSource(t *testing.T) (map[string][]string, []trouble) {
	dir, state := filepath.Join(t.TempDir(), "folder"), t.TempDir()
	must(t, os.Mkdir(dir, 0o700))
	write(t, dir, "file", 40)
	h := startHub(t)
	s := newSourceEnd(t, dir, state, h.url(), "--rescan=1s")
	s.start()
	return map[string][]string{"rshub": {h.admin}, "rspub": {s.admin}}, []trouble{
		{[]string{"RspubDeletionsHeld"}, func() {
			for i := range 35 {
				must(t, os.Remove(filepath.Join(dir, fmt.Sprint("file", i))))
			}
		}, nil},
		{[]string{"RspubHubBehind"}, func() {
			write(t, dir, "file", 35)
			h.kill()
			write(t, dir, "while the hub is away", 1)
		}, nil},
		{[]string{"RspubPostsRefused"}, func() {
			publishers := filepath.Join(t.TempDir(), "publishers")
			must(t, os.WriteFile(publishers, []byte("publishers: []\n"), 0o600))
			h.args = []string{"--publish-auth=token", "--publishers-file", publishers}
			h.start()
		}, nil},
		{[]string{"RspubHubStopped"}, func() {
			// The Source goes back to an older state, as from a backup, and the hub has news that
			// this state does not know.
			h.terminate()
			h.args = nil
			h.start()
			saved := t.TempDir()
			time.Sleep(3 * time.Second)
			s.terminate()
			must(t, os.CopyFS(filepath.Join(saved, "state"), os.DirFS(state)))
			s.start()
			for n := range 5 {
				write(t, dir, fmt.Sprint("later ", n), 1)
				time.Sleep(500 * time.Millisecond)
			}
			s.terminate()
			must(t, os.RemoveAll(state))
			must(t, os.CopyFS(state, os.DirFS(filepath.Join(saved, "state"))))
			s.start()
			write(t, dir, "other", 1)
		}, nil},
		{[]string{"RspubNotReady"}, func() { must(t, os.Rename(dir, dir+" elsewhere")) }, nil},
		{[]string{"RspubDown"}, s.kill, nil},
	}
}

// alertsOfWatches has a Source in a user namespace that may watch few folders.
func alertsOfWatches(t *testing.T) (map[string][]string, []trouble) {
	dir := t.TempDir()
	s := newSourceEnd(t, dir, t.TempDir(), "http://127.0.0.1:1/", "--rescan=1s")
	s.args = append([]string{"unshare", "-Ur", "sh", "-c", "echo 8 > /proc/sys/user/max_inotify_watches && exec \"$@\"", "sh"}, s.args...)
	s.start()
	return map[string][]string{"rspub": {s.admin}}, []trouble{
		{[]string{"RspubUnwatched"}, func() {
			for n := range 20 {
				must(t, os.Mkdir(filepath.Join(dir, fmt.Sprint(n)), 0o700))
			}
		}, nil},
	}
}

func alertsOfDestination(t *testing.T) (map[string][]string, []trouble) {
	dir, h := t.TempDir(), startHub(t, "--continuity=flag")
	write(t, dir, "file", 60)
	s := newSourceEnd(t, dir, t.TempDir(), h.url(), "--max-deleted=1", "--rescan=1s")
	source := "http://" + s.addr + "/"
	s.start()
	d := newCopyEnd(t, source, t.TempDir(), "--max-file=100KiB")
	d.start()
	ready := func(e *end) func() error {
		return func() error {
			a, err := try(t.Context(), http.MethodGet, "http://"+e.admin+"/readyz", nil, nil)
			if err == nil && a.status != http.StatusOK {
				err = errors.New(string(a.body))
			}
			return err
		}
	}
	eventually(t, time.Minute, ready(d))
	gone := newCopyEnd(t, source, t.TempDir(), "--audit-every=2s")
	gone.start()
	eventually(t, time.Minute, ready(gone))
	anew := func(source string) { // it begins anew, with another copy
		gone.kill()
		gone.args[2], gone.args[4] = source, t.TempDir()
		gone.start()
	}
	return map[string][]string{"rshub": {h.admin}, "rspub": {s.admin}, "rssub": {d.admin, gone.admin}}, []trouble{
		{[]string{"RssubCopyWasWrong"}, func() {
			files, err := filepath.Glob(filepath.Join(gone.args[4], "*", "data", "*"))
			must(t, err)
			must(t, os.WriteFile(files[0], []byte("damaged"), 0o600))
		}, nil},
		{[]string{"RssubForged"}, func() {
			var subs struct {
				Items []struct{ Callback string }
			}
			h.api("/api/v1/subscriptions", &subs)
			at := slices.IndexFunc(subs.Items, func(s struct{ Callback string }) bool { return strings.Contains(s.Callback, d.addr) })
			for range 25 {
				do(t, http.MethodPost, subs.Items[at].Callback, http.Header{"Content-Type": {"application/xml"}}, []byte("<urlset/>")).want(t, http.StatusUnauthorized)
			}
		}, nil},
		{[]string{"RssubResourcesFail"}, func() {
			must(t, os.WriteFile(filepath.Join(dir, "large"), make([]byte, 300<<10), 0o600))
		}, nil},
		{[]string{"RssubDeletionsHeld"}, func() {
			for i := range 50 {
				must(t, os.Remove(filepath.Join(dir, fmt.Sprint("file", i))))
			}
		}, nil},
		{[]string{"RssubDown"}, gone.kill, nil},
		{[]string{"RssubUnsubscribed", "RssubTrouble"}, func() {
			h.kill()
			anew(source)
		}, nil},
		{[]string{"RssubBehind"}, func() {
			h.start()
			s.terminate()
			type lastUntil struct {
				URL   string
				Until time.Time `json:"last_until"`
			}
			var topics struct{ Items []lastUntil }
			h.api("/api/v1/topics", &topics)
			topic := topics.Items[slices.IndexFunc(topics.Items, func(t lastUntil) bool { return strings.HasSuffix(t.URL, "/changes/") })]
			body := bytes.ReplaceAll(notification(topic.Until.Add(time.Millisecond), time.Now(), 0), []byte("https://example.org/r/"), []byte(source+"data/new"))
			h.accepted(topic.URL, body) // there is a gap before it, and no Source to ask for that
		}, nil},
		{[]string{"RssubNotReady"}, func() { anew("http://" + ports.Addr() + "/") }, nil},
	}
}

func alertsOfDisk(t *testing.T) (map[string][]string, []trouble) {
	mount := t.TempDir()
	must(t, syscall.Mount("tmpfs", mount, "tmpfs", 0, "size=2g"))
	t.Cleanup(func() { _ = syscall.Unmount(mount, syscall.MNT_DETACH) })
	size := func(options string, flags uintptr) func() {
		return func() { must(t, syscall.Mount("tmpfs", mount, "tmpfs", syscall.MS_REMOUNT|flags, options)) }
	}
	at := func(name string) string { return filepath.Join(mount, name) }
	h := newHub(t, "--min-free-disk=20MiB")
	h.dir = at("hub")
	h.start()
	dir := t.TempDir()
	write(t, dir, "file", 3)
	s := newSourceEnd(t, dir, at("source"), h.url())
	s.start()
	d := newCopyEnd(t, "http://"+s.addr+"/", at("copy"), "--min-free-disk=20MiB")
	d.start()
	return map[string][]string{"rshub": {h.admin}, "rspub": {s.admin}, "rssub": {d.admin}}, []trouble{
		{[]string{"RspubSpaceRunsOut"}, size("size=900m", 0), nil},
		{[]string{"RshubSpaceRunsOut"}, size("size=70m", 0), nil},
		{[]string{"RshubNoSpace", "RssubNoSpace"}, size("size=15m", 0), nil},
	}
}
