package e2e

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/rshub/rshub/test/ports"
)

var alertsFlag = flag.String("alerts", "", "all, or the trial whose troubles are caused; all take some minutes")

// operatorToken is what Prometheus says to all that it reads.
const operatorToken = "token-of-the-operator"

const rulesPath = "../../deploy/prometheus/rules.yaml"

// alertNames are the alerts of the rules.
func alertNames(t *testing.T) (names []string) {
	t.Helper()
	text, err := os.ReadFile(rulesPath)
	must(t, err)
	var file struct {
		Groups []struct {
			Rules []struct{ Alert string }
		}
	}
	must(t, yaml.Unmarshal(text, &file))
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			if r.Alert != "" {
				names = append(names, r.Alert)
			}
		}
	}
	return names
}

// shorter are the times within expressions that are made shorter beside those of scale, by
// alert.
var shorter = map[string][2]string{
	"RspubHubBehind": {"> 600", "> 6"},
	"RssubBehind":    {"> 900", "> 6"},
	"RshubStuck":     {"> 120", "> 20"},
}

var (
	aWait   = regexp.MustCompile(`(?m)^( +for: ).*$`)
	aWindow = regexp.MustCompile(`\[(\d+)([mh])\]`)
)

// scale makes the rules a matter of seconds: an alert waits for two, a window has a second in
// place of a minute and ten at least, and the times in shorter are as it says. All else
// stays.
func scale(t *testing.T, rules string) string {
	t.Helper()
	rules = aWait.ReplaceAllString(rules, "${1}2s")
	rules = aWindow.ReplaceAllStringFunc(rules, func(w string) string {
		m := aWindow.FindStringSubmatch(w)
		n, _ := strconv.Atoi(m[1])
		if m[2] == "h" {
			n *= 60
		}
		return fmt.Sprintf("[%ds]", max(n, 10))
	})
	for name, change := range shorter {
		from := strings.Index(rules, "- alert: "+name+"\n")
		if from < 0 || strings.Count(rules[from:], change[0]) == 0 {
			t.Fatalf("there is no %s in the alert %s", change[0], name)
		}
		rules = rules[:from] + strings.Replace(rules[from:], change[0], change[1], 1)
	}
	return rules
}

// prometheus is a Prometheus server with the rules, scaled.
type prometheus struct {
	t    *testing.T
	addr string
	log  logBuffer
}

// startPrometheus has it read targets by job, every two seconds, and waits until all
// answered. A hub whose store does not answer takes a second for its figures.
func startPrometheus(t *testing.T, targets map[string][]string) *prometheus {
	t.Helper()
	path, err := exec.LookPath("prometheus")
	if err != nil {
		t.Skip("there is no prometheus on this machine")
	}
	rules, err := os.ReadFile(rulesPath)
	must(t, err)
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "rules.yml"), []byte(scale(t, string(rules))), 0o600))
	type job struct {
		Name    string                `yaml:"job_name"`
		Targets []map[string][]string `yaml:"static_configs"`
		Token   map[string]string     `yaml:"authorization"`
	}
	config := struct {
		Global map[string]string `yaml:"global"`
		Rules  []string          `yaml:"rule_files"`
		Jobs   []job             `yaml:"scrape_configs"`
	}{Global: map[string]string{"scrape_interval": "2s", "scrape_timeout": "2s", "evaluation_interval": "1s"}, Rules: []string{"rules.yml"}}
	n := 0
	for name, addrs := range targets {
		config.Jobs = append(config.Jobs, job{name, []map[string][]string{{"targets": addrs}}, map[string]string{"credentials": operatorToken}})
		n += len(addrs)
	}
	text, err := yaml.Marshal(config)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "prometheus.yml"), text, 0o600))
	p := &prometheus{t: t, addr: ports.Addr()}
	cmd := exec.CommandContext(t.Context(), path, "--config.file="+filepath.Join(dir, "prometheus.yml"),
		"--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+p.addr)
	cmd.Stderr = writerFunc(func(b []byte) { p.log.add(b) })
	must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	eventually(t, time.Minute, func() error {
		var up struct {
			Data struct{ Result []any }
		}
		if err := p.get("/api/v1/query?query=up==1", &up); err != nil {
			return err
		}
		if len(up.Data.Result) != n {
			return fmt.Errorf("%d of %d answer", len(up.Data.Result), n)
		}
		return nil
	})
	return p
}

type writerFunc func([]byte)

func (f writerFunc) Write(b []byte) (int, error) { f(b); return len(b), nil }

func (p *prometheus) get(path string, into any) error {
	a, err := try(p.t.Context(), http.MethodGet, "http://"+p.addr+path, nil, nil)
	if err != nil {
		return fmt.Errorf("%w\n%s", err, &p.log)
	}
	return json.Unmarshal(a.body, into)
}

// alert is one that Prometheus has.
type alert struct {
	Labels, Annotations map[string]string
	State               string
}

// firing are the alerts that fire, by name.
func (p *prometheus) firing() (map[string]alert, error) {
	var answer struct {
		Data struct{ Alerts []alert }
	}
	if err := p.get("/api/v1/alerts", &answer); err != nil {
		return nil, err
	}
	out := map[string]alert{}
	for _, a := range answer.Data.Alerts {
		if a.State == "firing" {
			out[a.Labels["alertname"]] = a
		}
	}
	return out, nil
}

// quiet waits until no trouble of before is seen any more, and expects that alerts do not fire
// for some evaluations.
func (p *prometheus) quiet(names []string) {
	p.t.Helper()
	eventually(p.t, time.Minute, func() error {
		firing, err := p.firing()
		for _, name := range names {
			if a, ok := firing[name]; ok {
				err = fmt.Errorf("%s fires before its trouble: %s", name, a.Annotations["summary"])
			}
		}
		return err
	})
	for range 5 {
		time.Sleep(time.Second)
		firing, err := p.firing()
		must(p.t, err)
		for _, name := range names {
			if a, ok := firing[name]; ok {
				p.t.Errorf("%s fires before its trouble: %s", name, a.Annotations["summary"])
			}
		}
	}
}

// fires waits until alerts fire, and reads what they say.
func (p *prometheus) fires(names []string) {
	p.t.Helper()
	begun := time.Now()
	left := map[string]bool{}
	for _, name := range names {
		left[name] = true
	}
	for deadline := begun.Add(3 * time.Minute); len(left) > 0; time.Sleep(500 * time.Millisecond) {
		firing, err := p.firing()
		must(p.t, err)
		for name := range left {
			a, ok := firing[name]
			if !ok {
				continue
			}
			delete(left, name)
			says := a.Annotations["summary"] + " " + a.Annotations["description"]
			p.t.Logf("%5v %s: %s", time.Since(begun).Round(time.Second), name, a.Annotations["summary"])
			if strings.Contains(says, "no value") || strings.Contains(says, "error") && strings.Contains(says, "template") || strings.Contains(says, "{{") {
				p.t.Errorf("%s says %s", name, says)
			}
		}
		if time.Now().After(deadline) {
			for name := range left {
				p.t.Errorf("%s does not fire", name)
			}
			return
		}
	}
}
