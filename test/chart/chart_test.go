// Package chart tests the Helm chart, with Helm as a library and the types of Kubernetes. It is a
// module of its own, because both are large.
package chart

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write what the chart renders to testdata, and the table of README.md")

const folder = "../../helm/rshub"

// sets are sets of values in JSON. What each of them renders is in testdata, and `make kube` installs it.
func sets(t *testing.T) map[string]json.RawMessage {
	t.Helper()
	text, err := os.ReadFile("sets.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]json.RawMessage
	if err := yaml.UnmarshalStrict(text, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// render renders the chart with values in YAML, as a new release called test.
func render(t *testing.T, values string) (string, error) {
	t.Helper()
	c, err := loader.Load(folder)
	if err != nil {
		t.Fatal(err)
	}
	all, err := util.ToRenderValues(c, given(t, values), common.ReleaseOptions{Name: "test", Namespace: "hubs", Revision: 1, IsInstall: true}, common.DefaultCapabilities)
	if err != nil {
		return "", err
	}
	files, err := engine.Render(c, all)
	return joined(files), err
}

// given are values in YAML, with a public URL if they have none.
func given(t *testing.T, values string) map[string]any {
	t.Helper()
	all := map[string]any{}
	if err := yaml.Unmarshal([]byte(values), &all); err != nil {
		t.Fatal(err)
	}
	if _, has := all["publicUrl"]; !has {
		all["publicUrl"] = "https://hub.example.org/"
	}
	return all
}

// joined are the objects of rendered templates in one text.
func joined(files map[string]string) string {
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if text := strings.TrimSpace(files[name]); text != "" && !strings.HasSuffix(name, ".tpl") {
			fmt.Fprintf(&out, "---\n# %s\n%s\n", name, text)
		}
	}
	return out.String()
}

// What each set of values renders is known, and the same each time.
func TestRendered(t *testing.T) {
	all := sets(t)
	if len(all) < 15 {
		t.Errorf("only %d sets of values", len(all))
	}
	for name, values := range all {
		t.Run(name, func(t *testing.T) {
			got, err := render(t, string(values))
			if err != nil {
				t.Fatal(err)
			}
			if again, err := render(t, string(values)); err != nil || again != got {
				t.Errorf("another rendering is different: %v", err)
			}
			file := filepath.Join("testdata", name+".yaml")
			// The files of deploy/ are long, and TestFiles compares them.
			known := regexp.MustCompile(`(?s)(\n  [a-z]+\.json: \|\n).*?(\n---|$)`).ReplaceAllString(got, "$1    ...$2")
			known = regexp.MustCompile(`(?s)(kind: PrometheusRule.*?\nspec:\n).*?(\n---|$)`).ReplaceAllString(known, "$1  ...$2")
			if *update {
				if err := os.WriteFile(file, []byte(known), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if d := cmp.Diff(string(want), known); err != nil || d != "" {
				t.Errorf("it renders something else (-update writes it): %v\n%s", err, d)
			}
			for _, object := range objects(got) {
				decode(t, object)
			}
		})
	}
}

// The values of the page about Kubernetes work, each with those of its first block.
func TestDeployPage(t *testing.T) {
	text, err := os.ReadFile("../../docs/deploy/kubernetes.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```yaml\n# values.yaml[^\n]*\n(.*?)```").FindAllSubmatch(text, -1)
	if len(blocks) != 3 {
		t.Fatalf("%d blocks of values, want 3", len(blocks))
	}
	var first map[string]any
	if err := yaml.UnmarshalStrict(blocks[0][1], &first); err != nil {
		t.Fatal(err)
	}
	for _, block := range blocks {
		values := maps.Clone(first)
		if err := yaml.UnmarshalStrict(block[1], &values); err != nil {
			t.Fatal(err)
		}
		merged, err := yaml.Marshal(values)
		if err != nil {
			t.Fatal(err)
		}
		out, err := render(t, string(merged))
		if err != nil {
			t.Errorf("%v\n%s", err, block[1])
		}
		for _, object := range objects(out) {
			decode(t, object)
		}
		if !strings.Contains(out, "test-rshub-keys") || !strings.Contains(out, "kind: Ingress") {
			t.Errorf("the page speaks of a Secret RELEASE-rshub-keys and of an Ingress, which these values do not give:\n%s", block[1])
		}
	}
}

// The pod of the page about Kubernetes that restores a backup is one that Kubernetes knows, and has
// the volume and the key of the hub.
func TestRestorePage(t *testing.T) {
	text, err := os.ReadFile("../../docs/deploy/kubernetes.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```yaml\n# restore.yaml\n(.*?)```").FindSubmatch(text)
	if block == nil {
		t.Fatal("the page restores nothing")
	}
	all := objects(strings.ReplaceAll(string(block[1]), "hub-rshub", "test-rshub"))
	if len(all) != 2 {
		t.Fatalf("%d objects, want 2", len(all))
	}
	var claim corev1.PersistentVolumeClaim
	var pod corev1.Pod
	if err := errors.Join(yaml.UnmarshalStrict([]byte(all[0]), &claim), yaml.UnmarshalStrict([]byte(all[1]), &pod)); err != nil {
		t.Fatal(err)
	}
	out, err := render(t, "{}")
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range objects(out) {
		var hub appsv1.StatefulSet
		if !strings.Contains(object, "kind: StatefulSet") {
			continue
		}
		if err := yaml.UnmarshalStrict([]byte(object), &hub); err != nil {
			t.Fatal(err)
		}
		spec, of := pod.Spec, hub.Spec.Template.Spec
		if want := "data-" + hub.Name + "-0"; claim.Name != want || spec.Volumes[0].PersistentVolumeClaim.ClaimName != want ||
			spec.Volumes[1].Secret.SecretName != of.Volumes[1].Secret.SecretName || !cmp.Equal(claim.Spec, hub.Spec.VolumeClaimTemplates[0].Spec) {
			t.Errorf("the page has the claim %s and the Secret %s", claim.Name, spec.Volumes[1].Secret.SecretName)
		}
		if !cmp.Equal(spec.Containers[0].SecurityContext, of.Containers[0].SecurityContext) || *spec.SecurityContext.FSGroup != *of.SecurityContext.FSGroup || *spec.SecurityContext.RunAsUser != *of.SecurityContext.RunAsUser {
			t.Error("its pod has another user or other rights than the hub")
		}
		return
	}
	t.Fatal("no StatefulSet is rendered")
}

func objects(text string) (all []string) {
	for _, part := range strings.Split("\n"+text, "\n---\n") {
		lines := slices.DeleteFunc(strings.Split(part, "\n"), func(line string) bool { return strings.HasPrefix(line, "# rshub/") })
		if part = strings.TrimSpace(strings.Join(lines, "\n")); strings.Contains(part, "kind:") {
			all = append(all, part)
		}
	}
	return all
}

// kinds make an empty object of each kind.
var kinds = map[string]func() any{
	"apps/v1 Deployment": func() any { return &appsv1.Deployment{} }, "apps/v1 StatefulSet": func() any { return &appsv1.StatefulSet{} },
	"v1 Service": func() any { return &corev1.Service{} }, "v1 ConfigMap": func() any { return &corev1.ConfigMap{} }, "v1 Pod": func() any { return &corev1.Pod{} },
	"v1 ServiceAccount": func() any { return &corev1.ServiceAccount{} }, "batch/v1 Job": func() any { return &batchv1.Job{} },
	"rbac.authorization.k8s.io/v1 Role": func() any { return &rbacv1.Role{} }, "rbac.authorization.k8s.io/v1 RoleBinding": func() any { return &rbacv1.RoleBinding{} },
	"networking.k8s.io/v1 Ingress": func() any { return &networkingv1.Ingress{} }, "networking.k8s.io/v1 NetworkPolicy": func() any { return &networkingv1.NetworkPolicy{} },
	"policy/v1 PodDisruptionBudget":          func() any { return &policyv1.PodDisruptionBudget{} },
	"autoscaling/v2 HorizontalPodAutoscaler": func() any { return &autoscalingv2.HorizontalPodAutoscaler{} },
}

// decode decodes an object strictly into the type of Kubernetes, or checks it against the
// definition of its kind, and then checks what all have in common.
func decode(t *testing.T, text string) {
	t.Helper()
	var head struct {
		APIVersion, Kind string
		Metadata         struct {
			Name   string
			Labels map[string]string
		}
	}
	if err := yaml.Unmarshal([]byte(text), &head); err != nil {
		t.Errorf("%v in\n%s", err, text)
		return
	}
	of := head.APIVersion + " " + head.Kind
	empty := kinds[of]
	switch _, other := defined[of]; {
	case empty != nil:
		if err := yaml.UnmarshalStrict([]byte(text), empty()); err != nil {
			t.Errorf("%s %s: %v", of, head.Metadata.Name, err)
		}
	case other:
		conforms(t, of, text)
	default:
		t.Errorf("%q is no kind that the test knows", of)
	}
	if !strings.HasPrefix(head.Metadata.Name, "test-") || len(head.Metadata.Name) > 63 {
		t.Errorf("%s is called %q", of, head.Metadata.Name)
	}
	var pod corev1.PodSpec
	switch o := object(empty, text).(type) {
	case *appsv1.Deployment:
		pod = o.Spec.Template.Spec
		matches(t, o.Name, o.Spec.Selector.MatchLabels, o.Spec.Template.Labels)
	case *appsv1.StatefulSet:
		pod = o.Spec.Template.Spec
		matches(t, o.Name, o.Spec.Selector.MatchLabels, o.Spec.Template.Labels)
	case *batchv1.Job:
		pod = o.Spec.Template.Spec
	case *corev1.Pod:
		pod = o.Spec
	default:
		return
	}
	restricted(t, head.Metadata.Name, &pod)
}

func object(empty func() any, text string) any {
	if empty == nil {
		return nil
	}
	o := empty()
	_ = yaml.Unmarshal([]byte(text), o) // the caller has done it strictly
	return o
}

func matches(t *testing.T, name string, selector, labels map[string]string) {
	t.Helper()
	for k, v := range selector {
		if labels[k] != v {
			t.Errorf("%s selects %s=%s, and its pods have %q", name, k, v, labels[k])
		}
	}
}

// restricted checks the pod security standard of that name, and what else each pod has to have.
func restricted(t *testing.T, name string, pod *corev1.PodSpec) {
	t.Helper()
	s := pod.SecurityContext
	if s == nil || s.RunAsNonRoot == nil || !*s.RunAsNonRoot || *s.RunAsUser != 65532 || s.SeccompProfile == nil || s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
		t.Errorf("%s: the security context of its pod is %+v", name, s)
	}
	if pod.EnableServiceLinks == nil || *pod.EnableServiceLinks || pod.AutomountServiceAccountToken == nil {
		t.Errorf("%s: service links, or a token that nobody asked for", name)
	}
	volumes := map[string]bool{}
	for _, v := range pod.Volumes {
		volumes[v.Name] = true
	}
	settings, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range pod.Containers {
		for _, e := range c.Env {
			if strings.HasPrefix(e.Name, "RSHUB_") && e.Name != "RSHUB_ADMIN_URL" && !bytes.Contains(settings, []byte("`"+e.Name+"`")) {
				t.Errorf("%s: %s sets %s, which is no setting", name, c.Name, e.Name)
			}
		}
		s := c.SecurityContext
		if s == nil || !*s.ReadOnlyRootFilesystem || *s.AllowPrivilegeEscalation || !slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) {
			t.Errorf("%s: the security context of %s is %+v", name, c.Name, s)
		}
		for _, m := range c.VolumeMounts {
			if !volumes[m.Name] && !slices.Contains([]string{"data", "state", "copy"}, m.Name) { // those of a volumeClaimTemplate
				t.Errorf("%s mounts %s, which is no volume", name, m.Name)
			}
		}
	}
}

// refusals are values that can't work, and what the sentence about each says.
var refusals = map[string]string{
	`publicUrl: ""`:                                      "publicUrl is missing",
	`publicUrl: hub.example.org`:                         "is not an absolute http or https URL",
	`replicaCount: 2`:                                    "the embedded store is for one hub",
	`replicaCount: 0`:                                    "replicaCount",
	`autoscaling: {enabled: true}`:                       "need several hubs",
	`redis: {url: "redis://u:p@redis"}`:                  "put the URL into a Secret",
	`redis: {url: "redis://a", existingSecret: b}`:       "choose one",
	`{redis: {url: "redis://a"}, keda: {enabled: true}}`: "keda.serverAddress is missing",
	`{redis: {url: "redis://a"}, keda: {enabled: true}, autoscaling: {enabled: true}}`: "choose one",
	`gateway: {enabled: true}`:             "gateway.parentRefs is empty",
	`settings: {public-url: "https://x/"}`: "the chart sets it by itself",
	`settings: {topic-chek: warn}`:         "additional properties 'topic-chek' not allowed",
	`rspub: {enabled: true}`:               "rspub.enabled needs two more values",
	`rssub: {enabled: true}`:               "rssub.enabled needs two more values",
	`replicas: 2`:                          "replicas",
	`image: {name: x}`:                     "name",
	`service: {type: Tunnel}`:              "type",
	`tests: {allowCidr: 10.0.0.1}`:         "is no range of addresses: write it as",
	`replicaCount: two`:                    "replicaCount",
}

// Values that can't work are refused with a sentence that says what to do.
func TestRefused(t *testing.T) {
	for values, says := range refusals {
		_, err := render(t, values)
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", values, err, says)
		}
		t.Logf("%s\n%v", values, err)
	}
}

// The chart is without faults for helm lint --strict.
func TestLint(t *testing.T) {
	for _, m := range lint.RunAll(folder, map[string]any{"publicUrl": "https://hub.example.org/"}, "hubs").Messages {
		if m.Severity > support.InfoSev {
			t.Errorf("%s", m)
		}
	}
}

// The schema has each value, and each value has a row of the README.
func TestSchema(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(folder, "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var values map[string]any
	if err := yaml.Unmarshal(text, &values); err != nil {
		t.Fatal(err)
	}
	schemaText, err := os.ReadFile(filepath.Join(folder, "values.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	var schema map[string]any
	if err := yaml.Unmarshal(schemaText, &schema); err != nil {
		t.Fatal(err)
	}
	compare(t, "", values, schema)
	settings(t, schema)
	readme, rows := filepath.Join(folder, "README.md"), table(string(text))
	have, err := os.ReadFile(readme)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, _ := strings.Cut(string(have), "<!-- table -->\n")
	_, after, _ := strings.Cut(rest, "<!-- end of the table -->")
	want := before + "<!-- table -->\n" + rows + "<!-- end of the table -->" + after
	if *update {
		if err := os.WriteFile(readme, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
	} else if d := cmp.Diff(want, string(have)); d != "" {
		t.Errorf("the table of README.md is not that of values.yaml (-update writes it):\n%s", d)
	}
}

// settings sees that the schema has each setting of rshub serve, and no other.
func settings(t *testing.T, schema map[string]any) {
	t.Helper()
	text, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, m := range regexp.MustCompile("(?m)^\\| `--([a-z0-9-]+)` \\| `RSHUB_").FindAllStringSubmatch(string(text), -1) {
		want = append(want, m[1])
	}
	of, _ := schema["properties"].(map[string]any)["settings"].(map[string]any)
	properties, _ := of["properties"].(map[string]any)
	got := slices.Sorted(maps.Keys(properties))
	slices.Sort(want)
	if d := cmp.Diff(want, got); len(want) < 50 || of["additionalProperties"] != false || d != "" {
		t.Errorf("the settings of the schema are not those of docs/operations.md:\n%s", d)
	}
}

func compare(t *testing.T, at string, values, schema map[string]any) {
	t.Helper()
	properties, _ := schema["properties"].(map[string]any)
	if properties == nil || at == "settings." {
		return // any keys, or those that settings compares
	}
	if schema["additionalProperties"] != false {
		t.Errorf("the schema takes unknown values below %q", at)
	}
	for name := range properties {
		if _, ok := values[name]; !ok && at+name != "global" {
			t.Errorf("the schema has %s%s, and values.yaml has not", at, name)
		}
	}
	for name, value := range values {
		of, ok := properties[name].(map[string]any)
		if !ok {
			t.Errorf("the schema lacks %s%s", at, name)
			continue
		}
		if below, ok := value.(map[string]any); ok {
			compare(t, at+name+".", below, of)
		}
	}
}

// table is values.yaml as the rows of a table: the name, what it is by default, and its comment.
func table(text string) string {
	var out strings.Builder
	out.WriteString("| value | default | what it is |\n|---|---|---|\n")
	var path []string
	var comment []string
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		body := strings.TrimLeft(line, " ")
		depth := (len(line) - len(body)) / 2
		if c, ok := strings.CutPrefix(body, "#"); ok {
			comment = append(comment, strings.TrimPrefix(strings.TrimSpace(c), "-- "))
			continue
		}
		name, value, ok := strings.Cut(body, ":")
		if body == "" || !ok {
			comment = nil
			continue
		}
		path = append(path[:depth], name)
		if value = strings.TrimSpace(value); value == "" {
			value = "..."
		}
		fmt.Fprintf(&out, "| `%s` | `%s` | %s |\n", strings.Join(path, "."), value, strings.ReplaceAll(strings.Join(comment, " "), "|", `\|`))
		comment = nil
	}
	return out.String()
}

// Dashboards and rules of the chart are those of deploy/: a chart can't reach out of its folder.
func TestFiles(t *testing.T) {
	pairs := map[string]string{filepath.Join(folder, "files/rules.yaml"): "../../deploy/prometheus/rules.yaml"}
	dashboards, err := filepath.Glob("../../deploy/grafana/*.json")
	if err != nil || len(dashboards) == 0 {
		t.Fatal(dashboards, err)
	}
	for _, d := range dashboards {
		pairs[filepath.Join(folder, "files", filepath.Base(d))] = d
	}
	for copied, from := range pairs {
		want, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if *update {
			if err := os.WriteFile(copied, want, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(copied); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not %s (-update copies it): %v", copied, from, err)
		}
	}
	got, err := render(t, string(sets(t)["metrics"]))
	if err != nil {
		t.Fatal(err)
	}
	packed := func(text string) string { return strings.Join(strings.Fields(text), " ") } // it is indented in an object
	for from := range maps.Values(pairs) {
		if text, err := os.ReadFile(from); err != nil || !strings.Contains(packed(got), packed(string(text))) {
			t.Errorf("%s is not in what the chart renders: %v", from, err)
		}
	}
}
