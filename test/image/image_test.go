package image

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/rshub/rshub/internal/program/config"
	"github.com/rshub/rshub/test/ports"
)

var build = flag.Bool("image", false, "build the image and run its commands")

// service is a container of compose.yaml.
type service struct {
	Command     []string
	Environment map[string]string
	HealthCheck struct{ Test []string }
	ReadOnly    bool `yaml:"read_only"`
	Tmpfs       []string
}

func services(t *testing.T) map[string]service {
	t.Helper()
	text, err := os.ReadFile("../../compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, text)
}

func parse(t *testing.T, text []byte) map[string]service {
	t.Helper()
	var file struct{ Services map[string]service }
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	return file.Services
}

// env is the environment of a service, as NAME=value.
func (s *service) env() (all []string) {
	for _, name := range slices.Sorted(maps.Keys(s.Environment)) {
		all = append(all, name+"="+s.Environment[name])
	}
	return all
}

// readmeHub is the hub that README starts from the image to try it.
func readmeHub(t *testing.T) *service {
	t.Helper()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^podman run .*-v rshub:/var/lib/rshub (.*) localhost/rshub:\S+-amd64 (.*)$`).FindSubmatch(text)
	if line == nil || !bytes.Contains(text, []byte("\npodman exec hub /rshub try\n")) {
		t.Fatal("README does not start the image and try it")
	}
	s := &service{Command: strings.Fields(string(line[2])), Environment: map[string]string{}}
	s.HealthCheck.Test = []string{"CMD", "/rshub", "health"}
	for _, option := range strings.Split(" "+string(line[1]), " -e ")[1:] {
		name, value, _ := strings.Cut(option, "=")
		s.Environment[name] = value
	}
	return s
}

// README's hub may call this machine, so nobody else may reach it.
func TestReadmeHub(t *testing.T) {
	hub := readmeHub(t)
	cfg, _, err := config.Load(hub.Command[2:], hub.env())
	if err != nil {
		t.Fatal(err)
	}
	if len(cfg.AllowCIDR) == 0 || !strings.HasPrefix(cfg.Listen, "127.0.0.1:") || cfg.Dev {
		t.Errorf("README's hub has the settings %q", hub.env())
	}
}

// The hub of compose.yaml starts with its settings.
func TestComposeSettings(t *testing.T) {
	all := services(t)
	hub := all["hub"]
	if _, _, err := config.Load(hub.Command[2:], hub.env()); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"hub", "source", "destination"} {
		if s := all[name]; !s.ReadOnly || !slices.Equal(s.Tmpfs, []string{"/tmp"}) || s.HealthCheck.Test[2] != "health" {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

// The hub of the page about compose starts with its settings, and runs as that of compose.yaml.
func TestComposePage(t *testing.T) {
	text, err := os.ReadFile("../../docs/deploy/compose.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "```yaml\n# compose.yaml\n")
	block, _, found := strings.Cut(rest, "```")
	if !found {
		t.Fatal("the page has no compose.yaml")
	}
	all := parse(t, []byte(block))
	hub, model := all["hub"], services(t)["hub"]
	cfg, _, err := config.Load(hub.Command[2:], hub.env())
	if err != nil {
		t.Fatal(err)
	}
	if cfg.SealKeyFile != "/run/secrets/seal" || cfg.Listen != ":8080" {
		t.Errorf("the hub does not use the key, or is not where Caddy leads: %+v", cfg)
	}
	same, err := os.ReadFile("../../docs/deploy/caddy.md")
	if err != nil {
		t.Fatal(err)
	}
	site := regexp.MustCompile("(?s)```\n# Caddy: [^\n]*\n(.*?)```")
	one, other := site.FindSubmatch(text), site.FindSubmatch(same)
	if one == nil || other == nil || string(one[1]) != strings.ReplaceAll(string(other[1]), "127.0.0.1:8080", "hub:8080") {
		t.Errorf("Caddy's configuration differs from that of the page about Caddy, which is tried:\n%q", one)
	}
	if !hub.ReadOnly || !slices.Equal(hub.Tmpfs, model.Tmpfs) || !slices.Equal(hub.HealthCheck.Test, model.HealthCheck.Test) || !slices.Equal(hub.Command, model.Command) {
		t.Errorf("the hub runs otherwise than in compose.yaml: %+v", hub)
	}
}

// makeImage builds the image into a file, and returns the digest.
func makeImage(t *testing.T, file string) string {
	t.Helper()
	began := time.Now()
	cmd := exec.CommandContext(t.Context(), "../../tools/image", "rshub:test", file)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	digest := strings.TrimSpace(string(out))
	digest = digest[strings.LastIndexByte(digest, '\n')+1:]
	t.Logf("built in %s: %s", time.Since(began).Round(time.Second), digest)
	return digest
}

// command runs a command to its end.
func command(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
}

// readJSON decodes a file.
func readJSON(t *testing.T, name string, into any) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// descriptor names a blob of an image.
type descriptor struct{ Digest string }

func (d descriptor) in(dir string) string {
	return filepath.Join(dir, "blobs", strings.Replace(d.Digest, ":", "/", 1))
}

// unpack writes the files of an archive into root, and checks what the image says of itself.
func unpack(t *testing.T, archive, root string) {
	t.Helper()
	dir := t.TempDir()
	command(t, "tar", "-xf", archive, "-C", dir)
	var index struct{ Manifests []descriptor }
	readJSON(t, filepath.Join(dir, "index.json"), &index)
	var manifest struct {
		Config descriptor
		Layers []descriptor
	}
	readJSON(t, index.Manifests[0].in(dir), &manifest)
	var image struct {
		Config struct {
			User   string
			Labels map[string]string
		}
	}
	readJSON(t, manifest.Config.in(dir), &image)
	if image.Config.User != "65532:65532" {
		t.Errorf("the user is %q", image.Config.User)
	}
	for _, label := range []string{"title", "description", "source", "licenses", "version", "revision"} {
		if image.Config.Labels["org.opencontainers.image."+label] == "" {
			t.Errorf("there is no label %s: %v", label, image.Config.Labels)
		}
	}
	for _, layer := range manifest.Layers {
		command(t, "tar", "-xzpf", layer.in(dir), "-C", root)
	}
	var sbom struct {
		Packages []struct{ Name string }
	}
	readJSON(t, filepath.Join(root, "usr/share/rshub/sbom.spdx.json"), &sbom)
	for _, name := range []string{"rshub", "rspub", "rssub", "std", "go.etcd.io/bbolt"} {
		if !slices.ContainsFunc(sbom.Packages, func(p struct{ Name string }) bool { return p.Name == name }) {
			t.Errorf("the SBOM does not name %s", name)
		}
	}
	for _, name := range []string{"etc/ssl/certs/ca-certificates.crt", "usr/share/zoneinfo.zip", "usr/share/rshub/rssub-third-party.txt"} {
		if i, err := os.Stat(filepath.Join(root, name)); err != nil || i.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	out, err := exec.CommandContext(t.Context(), "find", root, "-type", "f", "-printf", "%P %s\n").Output()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the files of the image, in bytes:\n%s", out)
}

// box runs the commands of the image as containers do: the root folder is read-only, /tmp is
// empty, state is at /var/lib/rshub, and the user is 65532.
type box struct{ root, state, books string }

func (b *box) command(t *testing.T, env []string, args ...string) *exec.Cmd {
	t.Helper()
	script := `set -e
mount --bind "$ROOT" "$ROOT"
mount --bind "$STATE" "$ROOT/var/lib/rshub"
mount --bind "$BOOKS" "$ROOT/srv/books"
mount -t tmpfs tmpfs "$ROOT/tmp"
mount -o remount,bind,ro "$ROOT"
exec env -i PATH=/ ZONEINFO=/usr/share/zoneinfo.zip "$@"`
	inner := append([]string{}, env...)
	inner = append(inner, "/usr/sbin/chroot", "--userspec=65532:65532", "--groups=", b.root)
	cmd := exec.Command("unshare", append(append([]string{"-m", "sh", "-c", script, "sh"}, inner...), args...)...) //nolint:noctx // ends with a signal
	cmd.Env = append(os.Environ(), "ROOT="+b.root, "STATE="+b.state, "BOOKS="+b.books)
	return cmd
}

// make makes the folder of the state.
func (b *box) make(t *testing.T) {
	t.Helper()
	if err := os.Mkdir(b.state, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(b.state, 65532, 65532); err != nil {
		t.Fatal(err)
	}
}

// start runs a command until the end of the test, and waits until its health is good.
func (b *box) start(t *testing.T, name string, s *service) {
	t.Helper()
	var log bytes.Buffer
	cmd := b.command(t, s.env(), s.Command...)
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil || t.Failed() {
			t.Errorf("%s ended: %v\n%s", name, err, &log)
		}
	})
	eventually(t, func() error {
		out, err := b.command(t, s.env(), s.HealthCheck.Test[1:]...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%s: %w: %s", name, err, out)
		}
		t.Logf("%s: %s", name, out)
		return nil
	})
}

// eventually waits until check returns no error.
func eventually(t *testing.T, check func() error) {
	t.Helper()
	for began := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		err := check()
		if err == nil {
			return
		}
		if time.Since(began) > 2*time.Minute {
			t.Fatal(err)
		}
	}
}

// Two builds give one image, and its commands publish and receive as compose.yaml has them.
func TestImage(t *testing.T) {
	if !*build {
		t.Skip("`make image` runs it")
	}
	dir := t.TempDir()
	archive := filepath.Join(dir, "rshub.tar")
	if one, two := makeImage(t, archive), makeImage(t, filepath.Join(dir, "again.tar")); one != two {
		t.Errorf("two builds differ: %s and %s", one, two)
	}
	root, books := filepath.Join(dir, "root"), filepath.Join(dir, "books")
	for _, d := range []string{filepath.Join(root, "srv/books"), books} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for d := dir; d != "/"; d = filepath.Dir(d) {
		_ = os.Chmod(d, 0o755)
		if d == os.TempDir() {
			break
		}
	}
	unpack(t, archive, root)

	first := readmeHub(t)
	addr := ports.Addr()
	first.Environment["RSHUB_LISTEN"], first.Environment["RSHUB_PUBLIC_URL"] = addr, "http://"+addr+"/"
	first.Environment["RSHUB_ADMIN_LISTEN"] = ports.Addr()
	first.Environment["RSHUB_DATA_DIR"] = "/var/lib/rshub/rshub-data" // chroot does not go to the working folder of the image
	first.Environment["RSHUB_ADMIN_URL"] = "http://" + first.Environment["RSHUB_ADMIN_LISTEN"]
	tried := &box{root: root, state: filepath.Join(dir, "tried"), books: books}
	tried.make(t)
	tried.start(t, "README's hub", first)
	out, err := tried.command(t, first.env(), "/rshub", "try", "--listen", ports.Addr()).CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("with the right signature")) {
		t.Errorf("rshub try: %v: %s", err, out)
	}
	t.Logf("%s", out)

	redis := ports.Addr()
	_, port, _ := strings.Cut(redis, ":")
	server := exec.Command("redis-server", "--port", port, "--bind", "127.0.0.1", "--dir", dir, "--save", "", "--appendonly", "yes", "--appendfsync", "always", "--maxmemory-policy", "noeviction") //nolint:noctx // it ends after the hub
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	})
	all := services(t)
	hub, source, destination := ports.Addr(), ports.Addr(), ports.Addr()
	local := strings.NewReplacer("redis:6379", redis, "hub:8080", hub, "source:8090", source, "destination:8095", destination)
	prefix := map[string]string{"hub": "RSHUB_", "source": "RSPUB_", "destination": "RSSUB_"}
	listen := map[string]string{"hub": hub, "source": source, "destination": destination}
	for _, name := range []string{"hub", "source", "destination"} {
		s := all[name]
		for i := range s.Command {
			s.Command[i] = local.Replace(s.Command[i])
		}
		for key, value := range s.Environment {
			s.Environment[key] = local.Replace(value)
		}
		s.Environment[prefix[name]+"LISTEN"] = listen[name]
		s.Environment[prefix[name]+"ADMIN_LISTEN"] = ports.Addr()
		s.Environment[prefix[name]+"ALLOW_CIDR"] = "127.0.0.0/8" // all containers are this machine
		b := &box{root: root, state: filepath.Join(dir, name), books: books}
		b.make(t)
		b.start(t, name, &s)
	}

	began := time.Now()
	if err := os.WriteFile(filepath.Join(books, "new.txt"), []byte("it is new"), 0o644); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		found, err := filepath.Glob(filepath.Join(dir, "destination/copy/*/*/new.txt"))
		if err == nil && len(found) == 0 {
			err = errors.New("new.txt is not in the copy")
		}
		return err
	})
	t.Logf("a new file was in the copy after %s", time.Since(began).Round(10*time.Millisecond))
}
