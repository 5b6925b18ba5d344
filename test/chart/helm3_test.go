package chart

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
)

// render3 is render with Helm 3.
func render3(t *testing.T, values string) (string, error) {
	t.Helper()
	c, err := loader.Load(folder)
	if err != nil {
		t.Fatal(err)
	}
	all, err := chartutil.ToRenderValues(c, given(t, values), chartutil.ReleaseOptions{Name: "test", Namespace: "hubs", Revision: 1, IsInstall: true}, chartutil.DefaultCapabilities)
	if err != nil {
		return "", err
	}
	files, err := engine.Render(c, all)
	return joined(files), err
}

// Helm 3 renders what Helm 4 does, and refuses what Helm 4 refuses.
func TestHelm3(t *testing.T) {
	all := sets(t)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		want, err := render(t, string(all[name]))
		if err != nil {
			t.Fatal(err)
		}
		got, err := render3(t, string(all[name]))
		if d := cmp.Diff(want, got); err != nil || d != "" {
			t.Errorf("%s: %v\n%s", name, err, d)
		}
	}
	for values := range refusals {
		if _, err := render3(t, values); err == nil {
			t.Errorf("%s is accepted", values)
		}
	}
	for _, m := range lint.All(folder, map[string]any{"publicUrl": "https://hub.example.org/"}, "hubs", true).Messages {
		if m.Severity > support.InfoSev {
			t.Errorf("%s", m)
		}
	}
}
