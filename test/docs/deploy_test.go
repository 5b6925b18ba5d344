package docs

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/rshub/rshub/admin"
	"github.com/rshub/rshub/test/ports"
)

// rulesFile is what Prometheus reads.
type rulesFile struct {
	Groups []struct {
		Name  string
		Rules []rule
	}
}

type rule struct {
	Alert, Record, Expr, For string
	Labels, Annotations      map[string]string
}

func readYAML(t *testing.T, name string, into any) {
	t.Helper()
	f, err := os.Open(filepath.FromSlash(name))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	decoder := yaml.NewDecoder(f)
	decoder.KnownFields(true)
	if err := decoder.Decode(into); err != nil {
		t.Fatal(err)
	}
}

const rulesName, rulesTestName = "deploy/prometheus/rules.yaml", "deploy/prometheus/rules_test.yaml"

// allRules are the rules for Prometheus.
func allRules(t *testing.T) (all []rule) {
	t.Helper()
	var file rulesFile
	readYAML(t, rulesName, &file)
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	return all
}

// Each alert says what is wrong and what to do, and links to a runbook that is there; and a
// test shows that it fires and that it is quiet.
func TestAlerts(t *testing.T) {
	atRoot(t)
	var tests struct {
		RuleFiles          []string `yaml:"rule_files"`
		EvaluationInterval string   `yaml:"evaluation_interval"`
		Tests              []struct {
			Name     string
			Interval string
			Series   []any `yaml:"input_series"`
			Expect   []any `yaml:"promql_expr_test"`
		}
	}
	readYAML(t, rulesTestName, &tests)
	var tested []string
	for _, x := range tests.Tests {
		if len(x.Series) > 0 && len(x.Expect) > 0 {
			tested = append(tested, x.Name)
		}
	}
	text := readDoc(t, operationsDoc)
	for _, r := range allRules(t) {
		if r.Alert == "" {
			continue
		}
		a := r.Annotations
		page, anchor, _ := strings.Cut(strings.TrimPrefix(a["runbook_url"], "https://github.com/rshub/rshub/blob/main/"), "#")
		if !strings.HasSuffix(a["summary"], ".") || !strings.HasSuffix(a["description"], ".") || !slices.Contains([]string{"page", "ticket"}, r.Labels["severity"]) ||
			!anchors(readDoc(t, page))[anchor] {
			t.Errorf("%+v", r)
		}
		if !slices.Contains(tested, r.Alert+" fires") || !slices.Contains(tested, r.Alert+" is quiet") {
			t.Errorf("%s has no test", r.Alert)
		}
		if !strings.Contains(text, code(r.Alert)) {
			t.Errorf("%s does not name %s", operationsDoc, r.Alert)
		}
	}
	out, err := exec.CommandContext(t.Context(), tool(t, "promtool"), "test", "rules", rulesTestName).CombinedOutput()
	if err != nil {
		t.Errorf("promtool: %v\n%s", err, out)
	}
}

// tool finds a command that `make test` installs.
func tool(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("there is no %s on this machine", name)
	}
	return path
}

// queriesOf are the queries of the dashboards, and what each is for.
func queriesOf(t *testing.T) map[string]string {
	t.Helper()
	names, err := filepath.Glob(filepath.FromSlash("deploy/grafana/*.json"))
	if err != nil || len(names) == 0 {
		t.Fatalf("dashboards: %v, %v", names, err)
	}
	queries := map[string]string{}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var board struct {
			Title, UID string
			Panels     []struct {
				ID                 int
				Title, Description string
				Targets            []struct{ Expr string }
			}
		}
		if err := json.Unmarshal(text, &board); err != nil {
			t.Fatal(err)
		}
		seen := map[int]bool{}
		for _, p := range board.Panels {
			if p.Title == "" || !strings.HasSuffix(p.Description, ".") || len(p.Targets) == 0 || seen[p.ID] {
				t.Errorf("%s: %+v", name, p)
			}
			seen[p.ID] = true
			for _, x := range p.Targets {
				queries[fmt.Sprintf("%s: %s: %s", name, p.Title, x.Expr)] = strings.NewReplacer("$__rate_interval", "1m", "$instance", ".*").Replace(x.Expr)
			}
		}
	}
	return queries
}

// selector is a metric with its matchers.
var selector = regexp.MustCompile(`([a-z_:]+)\{([^}]*)\}`)

var matcher = regexp.MustCompile(`([a-z_]+)(=~|!~|!=|=)"([^"]*)"`)

// On a real Prometheus that reads a running hub, a Source that publishes there and a Destination
// that copies the Source, every query of the dashboards has data, and so has all that the rules
// compare.
func TestQueriesHaveData(t *testing.T) {
	atRoot(t)
	queries := queriesOf(t)
	for _, r := range allRules(t) {
		switch {
		case r.Record != "":
			queries[r.Record] = r.Record
		default:
			// What an alert compares has data, even where the alert itself is quiet.
			for _, name := range metricName.FindAllString(r.Expr, -1) {
				queries[r.Alert+": "+name] = name
			}
			for _, s := range selector.FindAllStringSubmatch(r.Expr, -1) {
				for _, m := range matcher.FindAllStringSubmatch(s[2], -1) {
					for _, value := range strings.Split(m[3], "|") {
						if m[1] != "job" {
							queries[r.Alert+": "+s[1]+": "+m[0]] = fmt.Sprintf("%s{%s=%q}", s[1], m[1], value)
						}
					}
				}
			}
		}
	}
	prometheus := tool(t, "prometheus")
	withHub(t, func(addr string, get func(path string) string) {
		dir, listen := t.TempDir(), ports.Addr()
		var info admin.Info
		if err := json.Unmarshal([]byte(get("/api/v1/info")), &info); err != nil {
			t.Fatal(err)
		}
		source, sourceAdmin := startSource(t, info.HubURL)
		targets := map[string]string{"rshub": addr, "rspub": sourceAdmin, "rssub": startDestination(t, source)}
		rules, err := filepath.Abs(rulesName)
		if err != nil {
			t.Fatal(err)
		}
		config := fmt.Sprintf("global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: [%q]\nscrape_configs:\n", rules)
		for job, target := range targets {
			config += fmt.Sprintf("  - job_name: %s\n    static_configs: [{targets: [%q]}]\n", job, target)
		}
		if err := os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
		var log strings.Builder
		cmd := exec.CommandContext(t.Context(), prometheus, "--config.file="+filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+listen)
		cmd.Stderr = &log
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
		empty := queries
		for deadline := time.Now().Add(2 * time.Minute); len(empty) > 0; time.Sleep(time.Second) {
			if time.Now().After(deadline) {
				for what, q := range empty {
					t.Errorf("%s\n  has no data: %s", what, q)
				}
				t.Fatal(log.String())
			}
			left := map[string]string{}
			for what, q := range empty {
				if n := results(t, listen, q); n == 0 {
					left[what] = q
				}
			}
			empty = left
		}
	})
}

// results is how many series a query has; none, while Prometheus starts.
func results(t *testing.T, addr, query string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr+"/api/v1/query?"+url.Values{"query": {query}}.Encode(), nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0
	}
	var answer struct {
		Status, Error string
		Data          struct{ Result []any }
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return 0 // it starts
	}
	if answer.Status != "success" {
		t.Fatalf("%s: %s", query, answer.Error)
	}
	return len(answer.Data.Result)
}
