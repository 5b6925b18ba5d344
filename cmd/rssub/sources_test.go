package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/rshub/rshub/internal/program/cli"
	"github.com/rshub/rshub/subscriber"
	"github.com/rshub/rshub/subscriber/destination"
)

// readFile reads the Sources of a text, for a command with flags.
func readFile(t *testing.T, text string, args ...string) ([]destination.Member, error) {
	t.Helper()
	var f copyFlags
	command := &cobra.Command{}
	f.addCopy(command.Flags())
	f.addSubscription(command.Flags())
	if err := command.Flags().Parse(args); err != nil {
		t.Fatal(err)
	}
	f.sources = filepath.Join(t.TempDir(), "sources.yaml")
	if err := os.WriteFile(f.sources, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(filepath.Dir(f.sources), "token"), []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	members, err := f.readSources(command, nil)
	if err != nil {
		return nil, cli.Fail(1, "%s", strings.ReplaceAll(err.Error(), f.sources, "sources.yaml"))
	}
	return members, nil
}

// A Source has the settings of its entry, else those of the file, else those of the command.
func TestReadSources(t *testing.T) {
	members, err := readFile(t, `defaults:
  max-delete: 7
  lease: 2d
sources:
  - url: https://A.example:8443/x/y%20z/?a=b
  - url: https://b.example/.well-known/resourcesync
    name: Bee
    dir: /elsewhere/b
    lease: 3d
    poll: 10m
    token-file: [b.example=token]
`, "--dir", "copies", "--state-dir", "states", "--lease", "1d", "--hold-for", "4s", "--allow-host", "files.example")
	if err != nil || len(members) != 2 {
		t.Fatal(err, members)
	}
	a, b := members[0], members[1]
	if a.Name != "a.example_8443-x-y-20z--a-b" || a.Options.Via != subscriber.ViaAuto || a.Options.Dir != "copies/"+a.Name || a.Options.StateDir != "states/"+a.Name || a.Options.Lease != 48*time.Hour ||
		a.Options.HoldFor != 4*time.Second || a.Options.Hosts[0] != "files.example" || a.Options.MaxDelete == (destination.Share{}) {
		t.Errorf("%+v", a)
	}
	if b.Name != "Bee" || b.Options.Via != subscriber.ViaPoll || b.Options.Dir != "/elsewhere/b" || b.Options.Lease != 72*time.Hour || b.Options.PollEvery != 10*time.Minute || b.Options.Token("b.example") != "secret" {
		t.Errorf("%+v", b)
	}
	// An entry with its own poll polls, one with its own way has that; the other ones have the command's.
	ways, err := readFile(t, "sources:\n- url: https://a.example/\n- {url: https://b.example/, poll: 10m}\n- {url: https://c.example/, via: auto, insecure-stream: true}\n",
		"--dir", "copies", "--via", "stream")
	if err != nil || ways[0].Options.Via != subscriber.ViaStream || ways[1].Options.Via != subscriber.ViaPoll || ways[2].Options.Via != subscriber.ViaAuto || !ways[2].Options.InsecureStream {
		t.Errorf("%v %+v", err, ways)
	}
	// The same text is the same version, and another setting another one.
	one := "sources: [{url: https://c.example/}]"
	first, err := readFile(t, one, "--dir", "copies")
	again, other := readFile(t, one, "--dir", "copies")
	changed, wrong := readFile(t, one, "--dir", "copies", "--lease", "1d")
	if err != nil || other != nil || wrong != nil || first[0].Version != again[0].Version || first[0].Version == changed[0].Version {
		t.Errorf("%v %v %v: %q %q %q", err, other, wrong, first[0].Version, again[0].Version, changed[0].Version)
	}
}

// A mistake is named with its line.
func TestReadSourcesMistakes(t *testing.T) {
	for text, says := range map[string]string{
		"sources:\n":                            "sources.yaml: there is no Source in the list",
		"":                                      "sources.yaml: it has no list",
		"sources:\n  - name: a\n":               "sources.yaml:2: url is missing",
		"sources:\n  - url: ftp://a.example/\n": `sources.yaml:2: url "ftp://a.example/" is not an http or https URL`,
		"sources:\n  - url: https://a.example/\n    nme: a\n":                                          `sources.yaml:3: there is no setting "nme"; did you mean name?`,
		"sources:\n  - url: https://a.example/\n    name: ../up\n":                                     `sources.yaml:2: "../up" cannot be the name`,
		"sources:\n  - url: https://a.example/b/c\n  - url: https://a.example/b-c\n":                   "sources.yaml:3: the name of this Source is a.example-b-c, as in sources.yaml:2",
		"sources:\n  - url: https://a.example/\n    lease: never\n":                                    `sources.yaml:3: lease: `,
		"sources:\n  - url: https://a.example/\n    max-delete: many\n":                                "sources.yaml:2: --max-delete:",
		"sources:\n  - url: https://a.example/\n  - url: https://b.example/\n    dir: a.example/in\n":  "sources.yaml: the folder of b.example is within the folder of a.example",
		"sources:\n  - url: https://a.example/\n    dir: x\n  - url: https://b.example/\n    dir: x\n": "have the same folder",
		"sources:\n  - url: https://a.example/\n    via: callback\n":                                   "sources.yaml:2: via is callback, and rssub has no callback",
		"sources:\n  - url: https://a.example/\n    dir: .rssub\n":                                     "sources.yaml:2: a.example: the folder copies/.rssub is within copies/.rssub, where the state of all copies is",
		"sources:\n  - url: https://a.example/\n    dir: .RSSUB/a\n":                                   "sources.yaml:2: a.example: the folder copies/.RSSUB/a is within copies/.rssub, where the state of all copies is",
		"sources:\n  - url: https://a.example/\n    dir: .\n":                                          "sources.yaml:2: a.example: the folder copies contains copies/.rssub, where the state of all copies is",
		"sources:\n  - url: https://a.example/\n    dir: ..\n":                                         "contains copies/.rssub, where the state of all copies is",
		"sources:\n  - url: https://a.example/\n    state-dir: .rssub\n":                               "where the state of all copies is; give the state of the copy a folder of its own",
		"sources:\n  - url: https://a.example/\n    listen: :80\n":                                     `sources.yaml:3: there is no setting "listen"`,
	} {
		if _, err := readFile(t, text, "--dir", "copies"); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, and it should say %s", text, err, says)
		}
	}
	of := func(dir string) string { return "sources: [{url: https://a.example/, dir: " + dir + "}]" }
	if _, err := readFile(t, of("../states/a"), "--dir", "copies", "--state-dir", "states"); err == nil || !strings.Contains(err.Error(), "where the state of all copies is") {
		t.Errorf("a copy in --state-dir: %v", err)
	}
	for _, dir := range []string{".rssub2", "x.rssub", "a/b"} {
		if _, err := readFile(t, of(dir), "--dir", "copies"); err != nil {
			t.Errorf("a copy in %s: %v", dir, err)
		}
	}
}

// The name that an address gives is safe as the name of a folder, and is a name of a copy.
func FuzzNameOf(f *testing.F) {
	for _, s := range []string{"https://a.example/", "http://[::1]:80/..", "https://a/" + strings.Repeat("x/", 100), "https://a.example/\x00%2e%2e/", "https://-/"} {
		f.Add(s)
	}
	safe := regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)
	f.Fuzz(func(t *testing.T, address string) {
		if name := nameOf(address); name != "" && !safe.MatchString(name) || len(name) > nameMost {
			t.Errorf("%q is called %q", address, name)
		}
	})
}
