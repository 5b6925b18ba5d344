package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
	sigsyaml "sigs.k8s.io/yaml"
)

const chart = "../../helm/rshub"

// sets are the sets of values of test/chart, in JSON.
func sets(t *testing.T) map[string]json.RawMessage {
	t.Helper()
	text, err := os.ReadFile("../chart/sets.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]json.RawMessage
	if err := sigsyaml.UnmarshalStrict(text, &all); err != nil {
		t.Fatal(err)
	}
	if len(all) < 15 {
		t.Errorf("only %d sets of values", len(all))
	}
	return all
}

// values writes values to a file.
func values(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// decode reads objects of any kind.
func decode(r io.Reader) (all []*unstructured.Unstructured, err error) {
	for d := yaml.NewYAMLOrJSONDecoder(r, 1<<16); ; {
		o := &unstructured.Unstructured{}
		if err := d.Decode(o); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		if o.Object != nil {
			all = append(all, o)
		}
	}
}

// define installs the published definitions of kinds that are not of Kubernetes.
func (c *cluster) define(t *testing.T) {
	t.Helper()
	for _, file := range strings.Fields(*kinds) {
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		all, err := decode(f)
		_ = f.Close()
		if err != nil || len(all) == 0 {
			t.Fatalf("%s: %v", file, err)
		}
		for _, o := range all {
			if err := c.create(t.Context(), "", o, false); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
		}
	}
}

// create gives an object to the API server, which refuses fields that it does not know.
func (c *cluster) create(ctx context.Context, namespace string, o *unstructured.Unstructured, dry bool) error {
	d, err := dynamic.NewForConfig(c.config)
	if err != nil {
		return err
	}
	groups, err := restmapper.GetAPIGroupResources(discovery.NewDiscoveryClient(c.client.Discovery().RESTClient()))
	if err != nil {
		return err
	}
	m, err := restmapper.NewDiscoveryRESTMapper(groups).RESTMapping(o.GroupVersionKind().GroupKind(), o.GroupVersionKind().Version)
	if err != nil {
		return err
	}
	how := metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict}
	if dry {
		how.DryRun = []string{metav1.DryRunAll}
	}
	if o.GetNamespace() != "" {
		namespace = o.GetNamespace()
	}
	if m.Scope.Name() == "root" {
		namespace = ""
	}
	_, err = d.Resource(m.Resource).Namespace(namespace).Create(ctx, o, how)
	return err
}

// accepted gives the API server each object that a set of values renders, and each pod that would be made.
func (c *cluster) accepted(t *testing.T, text string) {
	t.Helper()
	const namespace = "dry"
	out, err := c.helm(t.Context(), namespace, "template", "test", chart, "--kube-version=v1.37.2", "--set=publicUrl=https://hub.example.org/", "--values="+values(t, text))
	if err != nil {
		t.Fatal(err)
	}
	all, err := decode(strings.NewReader(out))
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for _, o := range all {
		counts[o.GetKind()]++
		if err := c.create(t.Context(), namespace, o, true); err != nil {
			t.Errorf("%s %s: %v", o.GetKind(), o.GetName(), err)
		}
		// The pod has an invented name, and an empty folder for each volume of a claim that would
		// be made.
		if spec, ok, _ := unstructured.NestedMap(o.Object, "spec", "template", "spec"); ok {
			pod := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod", "spec": spec}}
			pod.SetName("pod-of-" + o.GetName())
			labels, _, _ := unstructured.NestedStringMap(o.Object, "spec", "template", "metadata", "labels")
			pod.SetLabels(labels)
			volumes, _, _ := unstructured.NestedSlice(spec, "volumes")
			claims, _, _ := unstructured.NestedSlice(o.Object, "spec", "volumeClaimTemplates")
			for _, claim := range claims {
				if m, ok := claim.(map[string]any); ok {
					name, _, _ := unstructured.NestedString(m, "metadata", "name")
					volumes = append(volumes, map[string]any{"name": name, "emptyDir": map[string]any{}})
				}
			}
			if err := unstructured.SetNestedSlice(pod.Object, volumes, "spec", "volumes"); err != nil {
				t.Fatal(err)
			}
			// The ServiceAccount of a hook does not exist now.
			unstructured.RemoveNestedField(pod.Object, "spec", "serviceAccountName")
			if err := c.create(t.Context(), namespace, pod, true); err != nil {
				t.Errorf("the pod of %s: %v", o.GetName(), err)
			}
		}
	}
	var list []string
	for _, kind := range slices.Sorted(maps.Keys(counts)) {
		list = append(list, fmt.Sprintf("%d %s", counts[kind], kind))
	}
	t.Logf("the API server accepts %s", strings.Join(list, ", "))
}

// object makes an object of which the test has the text.
func (c *cluster) object(t *testing.T, namespace, text string) {
	t.Helper()
	all, err := decode(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range all {
		if err := c.create(t.Context(), namespace, o, false); err != nil {
			t.Fatalf("%s %s: %v", o.GetKind(), o.GetName(), err)
		}
	}
}

// install installs a release, and fails the test with what its pods printed if that fails.
func (c *cluster) install(t *testing.T, namespace string, args ...string) {
	t.Helper()
	c.must(t, namespace, slices.Concat([]string{"install", "test", chart, "--wait", "--timeout=3m"}, args)...)
}

// must runs helm, and fails the test with what pods printed if that fails.
func (c *cluster) must(t *testing.T, namespace string, args ...string) string {
	t.Helper()
	began := time.Now()
	out, err := c.helm(t.Context(), namespace, args...)
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, c.node.printed(namespace), c.events(t.Context(), namespace))
	}
	t.Logf("helm %s: %.1f s", args[0], time.Since(began).Seconds())
	return out
}

// test runs helm test, which is to print what wanted says.
func (c *cluster) test(t *testing.T, namespace, wanted string) {
	t.Helper()
	if out := c.must(t, namespace, "test", "test", "--logs"); !strings.Contains(out, wanted) || !strings.Contains(out, "Succeeded") {
		t.Errorf("helm test prints no %q: %s", wanted, out)
	}
}

// events are what controllers say about a namespace.
func (c *cluster) events(ctx context.Context, namespace string) string {
	var out strings.Builder
	all, err := c.client.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err.Error()
	}
	for _, e := range all.Items {
		if e.Type != corev1.EventTypeNormal {
			fmt.Fprintf(&out, "%s %s: %s: %s\n", e.InvolvedObject.Kind, e.InvolvedObject.Name, e.Reason, e.Message)
		}
	}
	return out.String()
}

// before has the objects that must exist in a namespace before a set of values can be installed.
var before = map[string]string{
	"claim":      `{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}`,
	"ownkeys":    `{apiVersion: v1, kind: Secret, metadata: {name: mine}, stringData: {token: a-token-of-the-operator, keys: "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="}}`,
	"publishers": `{apiVersion: v1, kind: Secret, metadata: {name: publishers}, stringData: {publishers.yaml: "publishers: []\n"}}`,
	"redissec":   `{apiVersion: v1, kind: Secret, metadata: {name: redis}, stringData: {address: "redis://redis:6379/0"}}`,
	"ends":       `{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: resources}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}`,
	"extras": `{apiVersion: v1, kind: ConfigMap, metadata: {name: ca}, data: {ca.crt: none}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: hub}}`,
}

// replicas are how many hubs a set of values leads to, where that is not one.
var replicas = map[string]int{"redis": 3, "redissec": 2, "hpa": 3} // the last as the autoscaler wants it

// installed installs a set of values, waits for it as helm does, and removes it.
func (c *cluster) installed(t *testing.T, name, text string) {
	t.Helper()
	defer c.node.check(t)
	namespace := "set-" + name
	c.namespace(t, namespace)
	c.object(t, namespace, before[name])
	if strings.Contains(text, "redis") {
		c.redis(t, namespace)
	}
	c.install(t, namespace, "--set=publicUrl=https://hub.example.org/", "--values="+values(t, text))
	want := max(1, replicas[name])
	eventually(t, time.Minute, fmt.Sprintf("there are %d hubs", want), func() error {
		pods, err := c.client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/component=hub"})
		if err != nil {
			return err
		}
		ready := 0
		for i := range pods.Items {
			if isReady(&pods.Items[i]) {
				ready++
			}
		}
		if ready != want {
			return fmt.Errorf("%d are ready", ready)
		}
		return nil
	})
	wanted := "https://hub.example.org/" // of rshub info
	if name == "tests" {
		wanted = "with the right signature"
	}
	c.test(t, namespace, wanted)
	c.must(t, namespace, "uninstall", "test", "--wait", "--timeout=2m")
	if err := c.client.CoreV1().Namespaces().Delete(t.Context(), namespace, metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
}

func isReady(p *corev1.Pod) bool {
	return p.DeletionTimestamp == nil && slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}
