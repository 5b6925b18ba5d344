package packages

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rshub/rshub/test/ports"
)

var install = flag.Bool("packages", false, "make the packages and install them")

var names = []string{"rshub", "rspub", "rssub"}

// makePackages makes the packages of this processor from the source in from.
func makePackages(t *testing.T, from, version, to string) {
	t.Helper()
	began := time.Now()
	cmd := exec.CommandContext(t.Context(), filepath.Join(from, "tools/package"), to)
	cmd.Env = append(os.Environ(), "VERSION="+version, "ARCHS="+arch(t))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("the packages of %s were made in %s", version, time.Since(began).Round(time.Second))
}

func arch(t *testing.T) string {
	t.Helper()
	return strings.TrimSpace(run(t, "dpkg", "--print-architecture"))
}

// file is the name of a package.
func file(t *testing.T, name, version, format string) string {
	t.Helper()
	if format == "deb" {
		return name + "_" + version + "_" + arch(t) + ".deb"
	}
	return name + "-" + version + "-1." + map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[arch(t)] + ".rpm"
}

// elsewhere is a copy of the source, with what is not committed, in another folder.
func elsewhere(t *testing.T, dir string) string {
	t.Helper()
	to := filepath.Join(dir, "elsewhere")
	run(t, "git", "clone", "--quiet", "../..", to)
	changed := exec.CommandContext(t.Context(), "sh", "-c", `{ git diff --name-only --relative HEAD; git ls-files -o --exclude-standard; } | while read -r f; do ! [ -f "$f" ] || cp --parents "$f" "$TO"; done`)
	changed.Dir, changed.Env = "../..", append(os.Environ(), "TO="+to)
	if out, err := changed.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return to
}

// Where no version is meant, no package is made.
func TestVersion(t *testing.T) {
	for _, version := range []string{"", "dev", "1.2.3", "v1.2", "v1.2.3-", "v1.2.3+dirty", "v1.2.3-4-gabc~"} {
		cmd := exec.CommandContext(t.Context(), "../../tools/package", t.TempDir())
		cmd.Env = append(os.Environ(), "VERSION="+version)
		out, err := cmd.CombinedOutput()
		if err == nil || !bytes.Contains(out, []byte("is no version")) {
			t.Errorf("%q: %v\n%s", version, err, out)
		}
	}
}

// The packages of two builds are equal, and are as Debian and rpm want them. They start nothing that
// was not filled in, publish and receive, keep settings and state through upgrade, removal and purge,
// and restart what runs and nothing else.
func TestPackages(t *testing.T) {
	if !*install {
		t.Skip("`make packaged` runs it")
	}
	dir := t.TempDir()
	one, two, next := filepath.Join(dir, "one"), filepath.Join(dir, "two"), filepath.Join(dir, "next")
	makePackages(t, "../..", "v0.9.0", one)
	makePackages(t, elsewhere(t, dir), "v0.9.0", two)
	makePackages(t, "../..", "v0.9.1", next)
	for _, name := range names {
		for _, format := range []string{"deb", "rpm"} {
			f := file(t, name, "0.9.0", format)
			run(t, "cmp", filepath.Join(one, f), filepath.Join(two, f))
		}
		run(t, "lintian", "--fail-on", "error,warning", filepath.Join(one, file(t, name, "0.9.0", "deb")))
		contents(t, name, filepath.Join(one, file(t, name, "0.9.0", "rpm")))
	}

	m := boot(t, dir)
	m.write(t, "/etc/hosts", "127.0.0.1 localhost\n") // which debootstrap leaves to an installer
	run(t, "cp", "-r", one, next, filepath.Join(m.root, "root"))
	readme(t, m)
	deployed(t, m)
	s := &site{machine: m, addr: map[string]string{"rshub": ports.Addr(), "rspub": ports.Addr(), "rssub": ports.Addr()}}
	s.deb(t)
	s.rpm(t)
}

// contents checks the files of an rpm.
func contents(t *testing.T, name, rpm string) {
	t.Helper()
	list := strings.Fields(run(t, "rpm", "-qpl", rpm))
	for _, want := range []string{
		"/usr/bin/NAME", "/etc/NAME/NAME.yaml", "/etc/NAME/credentials", "/usr/lib/systemd/system/NAME.service", "/usr/lib/sysusers.d/NAME.conf",
		"/usr/share/man/man1/NAME.1.gz", "/usr/share/man/man1/NAME-config-check.1.gz", "/usr/share/bash-completion/completions/NAME", "/usr/share/zsh/site-functions/_NAME",
		"/usr/share/fish/vendor_completions.d/NAME.fish", "/usr/share/licenses/NAME/LICENSE", "/usr/share/licenses/NAME/third-party.txt", "/usr/share/doc/NAME/packages.md.gz",
	} {
		if want = strings.ReplaceAll(want, "NAME", name); !slices.Contains(list, want) {
			t.Errorf("the rpm of %s has no %s", name, want)
		}
	}
	if got := strings.Fields(run(t, "rpm", "-qpc", rpm)); !slices.Equal(got, []string{"/etc/" + name + "/" + name + ".yaml"}) {
		t.Errorf("the settings in the rpm of %s are %v", name, got)
	}
}

// site is a hub, a Source and a Destination on one machine.
type site struct {
	*machine
	addr map[string]string
}

// settings are what an operator fills in.
func (s *site) settings(name string) string {
	common := fmt.Sprintf("listen: %[1]s\nallow-cidr: [127.0.0.0/8]\n", s.addr[name])
	url := func(name string) string { return "http://" + s.addr[name] + "/" }
	switch name {
	case "rshub":
		return common + "admin-listen: 127.0.0.1:0\nseal-key-file: /run/credentials/rshub.service/keys_seal\npublic-url: " + url("rshub") + "\n"
	case "rspub":
		return common + "dir: /srv/books\nhub: [\"" + url("rshub") + "\"]\npublic-url: " + url("rspub") + "\n"
	default:
		return common + "source: " + url("rspub") + "\ncallback-url: " + url("rssub") + "\ninsecure-secret: true\n"
	}
}

func config(name string) string { return "/etc/" + name + "/" + name + ".yaml" }

// fill fills in the settings of a program below those of the package.
func (s *site) fill(t *testing.T, name string) string {
	t.Helper()
	text := s.read(t, config(name))
	text += s.settings(name)
	s.write(t, config(name), text)
	return text
}

// arrives writes a file at the Source and waits for it in the copy.
func (s *site) arrives(t *testing.T, name string) {
	t.Helper()
	began := time.Now()
	s.write(t, "/srv/books/"+name, "it is "+name)
	eventually(t, name+" is in the copy", func() bool {
		found, _ := filepath.Glob(filepath.Join(s.root, "var/lib/rssub/copy/*/*", name))
		return len(found) == 1
	})
	t.Logf("%s was in the copy after %s", name, time.Since(began).Round(10*time.Millisecond))
}

// refuses sees that a service which nobody configured does not start, and says what is missing.
func (s *site) refuses(t *testing.T, name string) {
	t.Helper()
	if enabled, active := s.state("is-enabled", name), s.state("is-active", name); enabled != "disabled" || active != "inactive" {
		t.Errorf("after the installation %s is %s and %s", name, enabled, active)
	}
	if out, err := s.try("systemctl", "enable", "--now", name); err == nil {
		t.Errorf("%s starts without settings:\n%s", name, out)
	}
	missing := map[string]string{"rshub": "public-url is missing: write the URL", "rspub": "name the folder to publish", "rssub": "the Source is missing: name its URL"}[name]
	if log := s.must(t, "journalctl", "--no-pager", "--unit", name); !strings.Contains(log, "the settings in "+config(name)+" are not right") || !strings.Contains(log, missing) {
		t.Errorf("the journal does not say what %s lacks:\n%s", name, log)
	}
}

func (s *site) deb(t *testing.T) {
	install := func(folder, version string, names ...string) {
		t.Helper()
		args := []string{"dpkg", "--install"}
		for _, name := range names {
			args = append(args, "/root/"+folder+"/"+file(t, name, version, "deb"))
		}
		t.Logf("%s", s.must(t, args...))
	}
	install("one", "0.9.0", names...)
	s.must(t, "mkdir", "/srv/books")
	s.must(t, "sh", "-c", "umask 077; head -c 32 /dev/urandom | base64 > /etc/rshub/credentials/seal")
	filled := map[string]string{}
	for _, name := range names {
		s.must(t, "bash", "-c", ". /usr/share/bash-completion/completions/"+name+"; complete -p "+name)
		s.refuses(t, name)
		filled[name] = s.fill(t, name)
		s.must(t, "systemctl", "restart", name)
		if user := strings.TrimSpace(s.must(t, "stat", "--format=%U", "/proc/"+s.pid(t, name))); user != name {
			t.Errorf("%s runs as %s", name, user)
		}
	}
	s.arrives(t, "a.txt")

	// The hub alone is upgraded: what comes now is signed with a secret that the new one opened.
	before := s.pid(t, "rshub")
	install("next", "0.9.1", "rshub")
	if now := s.pid(t, "rshub"); now == before || s.state("is-active", "rshub") != "active" {
		t.Error("the hub was not restarted by its upgrade")
	}
	s.arrives(t, "b.txt")
	before = s.pid(t, "rspub")
	s.must(t, "systemctl", "stop", "rssub")
	install("next", "0.9.1", "rspub", "rssub")
	if now := s.pid(t, "rspub"); now == before || s.state("is-active", "rspub") != "active" {
		t.Error("the Source was not restarted by its upgrade")
	}
	if s.state("is-active", "rssub") != "inactive" {
		t.Error("the upgrade started a Destination that was stopped")
	}
	s.must(t, "systemctl", "start", "rssub")
	s.arrives(t, "c.txt")
	for _, name := range names {
		if out := s.must(t, name, "version"); !strings.HasPrefix(out, name+" v0.9.1 (commit ") {
			t.Errorf("after the upgrade: %s", out)
		}
		if s.read(t, config(name)) != filled[name] {
			t.Errorf("the upgrade changed the settings of %s", name)
		}
	}

	s.must(t, "dpkg", "--remove", "rshub")
	if s.state("is-active", "rshub") == "active" || s.exists("/usr/bin/rshub") || s.read(t, config("rshub")) != filled["rshub"] || !s.exists("/var/lib/rshub/store.db") {
		t.Error("the removal does not stop the hub, or does not keep its settings and state")
	}
	install("next", "0.9.1", "rshub")
	s.must(t, "systemctl", "start", "rshub")
	s.arrives(t, "d.txt")

	out := s.must(t, append([]string{"dpkg", "--purge"}, names...)...)
	for _, name := range names {
		if s.exists(config(name)) || s.exists("/usr/bin/"+name) || s.exists("/etc/systemd/system/multi-user.target.wants/"+name+".service") {
			t.Errorf("after the purge there is something left of %s", name)
		}
	}
	if !s.exists("/var/lib/rshub/store.db") || !s.exists("/etc/rshub/credentials/seal") ||
		!strings.Contains(out, "Purging rshub keeps its state and its keys. If nobody needs them any more, delete them: rm -r /var/lib/rshub /etc/rshub/credentials\n") {
		t.Errorf("the purge does not keep state and keys, or does not say so:\n%s", out)
	}
}

// blocks are the blocks of commands of a document of the repository, after a heading.
func blocks(t *testing.T, name, after string) []string {
	t.Helper()
	text, err := os.ReadFile("../../" + name)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "\n## "+after+"\n")
	if !found {
		t.Fatalf("%s has no heading %s", name, after)
	}
	rest, _, _ = strings.Cut(rest, "\n## ")
	var all []string
	for _, b := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(rest, -1) {
		all = append(all, b[1])
	}
	return all
}

// readme does what README says to get from the package to the first message.
func readme(t *testing.T, m *machine) {
	t.Helper()
	commands := strings.ReplaceAll(blocks(t, "README.md", "Get it")[0], "sudo ", "")
	if n := strings.Count(commands, "\n"); n > 5 {
		t.Errorf("README has %d commands to get it", n)
	}
	began := time.Now()
	out := m.must(t, "sh", "-exc", "cd /root/one\n"+commands)
	t.Logf("from the package to the first message in %s:\n%s", time.Since(began).Round(100*time.Millisecond), out)
	if !strings.Contains(out, "with the right signature") {
		t.Error("no message was received")
	}
}

// deployed does what docs/deploy/systemd.md says, with a certificate of its own, where the hub was tried before.
func deployed(t *testing.T, m *machine) {
	t.Helper()
	const page, name = "docs/deploy/systemd.md", "hub.example.org"
	m.must(t, "sh", "-ec", `echo 127.0.0.1 `+name+` >> /etc/hosts
openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=`+name+` -addext subjectAltName=DNS:`+name+` -keyout /etc/ssl/`+name+`.key -out /etc/ssl/`+name+`.pem
cp /etc/ssl/`+name+`.pem /usr/local/share/ca-certificates/hub.crt; update-ca-certificates; systemctl start nginx`)
	text, err := os.ReadFile("../../" + page)
	if err != nil {
		t.Fatal(err)
	}
	conf := regexp.MustCompile("(?s)```\n(# nginx: (\\S+)\n.*?)```").FindSubmatch(text)
	m.write(t, string(conf[2]), string(conf[1]))
	var out string
	for _, heading := range []string{"1. Install", "2. Fill in the settings", "3. nginx in front", "4. Let a Source publish", "5. See that it works", "6. Back up"} {
		for _, block := range blocks(t, page, heading) {
			block = strings.ReplaceAll(block, ".deb nginx\n", ".deb\n") // it is there, since this machine has no network
			out += m.must(t, "sh", "-exc", "cd /root/one\n"+block)
		}
	}
	t.Logf("%s:\n%s", page, out)
	for _, want := range []string{"hub       https://" + name + "/", "This is a ResourceSync hub.", "rshub_", "listening", "Restored 1 topic"} {
		if !strings.Contains(out, want) {
			t.Errorf("%s: no %q", page, want)
		}
	}
	if s := m.must(t, "rshub", "reload"); !strings.Contains(s, "1 in force") {
		t.Errorf("%s: the publisher is not there after the restore: %s", page, s)
	}
	m.must(t, "sh", "-ec", "systemctl stop nginx; dpkg --purge rshub; rm -r /var/lib/rshub* /etc/rshub")
}

// rpm does the same with rpm, on what the debs left.
func (s *site) rpm(t *testing.T) {
	command := func(verb, folder, version string) {
		t.Helper()
		args := []string{"rpm", "--nodeps", verb}
		for _, name := range names {
			args = append(args, "/root/"+folder+"/"+file(t, name, version, "rpm"))
		}
		s.must(t, args...)
	}
	command("--install", "one", "0.9.0")
	pids, filled := map[string]string{}, map[string]string{}
	for _, name := range names {
		s.refuses(t, name)
		filled[name] = s.fill(t, name)
		s.must(t, "systemctl", "restart", name)
		pids[name] = s.pid(t, name)
	}
	s.arrives(t, "e.txt")
	command("--upgrade", "next", "0.9.1")
	for _, name := range names {
		if now := s.pid(t, name); now == pids[name] || s.state("is-active", name) != "active" || s.read(t, config(name)) != filled[name] {
			t.Errorf("the upgrade does not restart %s, or does not keep its settings", name)
		}
	}
	s.arrives(t, "f.txt")
	s.must(t, append([]string{"rpm", "--erase"}, names...)...)
	for _, name := range names {
		if s.state("is-active", name) == "active" || s.exists("/usr/bin/"+name) || s.read(t, config(name)+".rpmsave") != filled[name] || !s.exists("/var/lib/"+name) {
			t.Errorf("the removal does not stop %s, or does not keep its settings and state", name)
		}
	}
}
